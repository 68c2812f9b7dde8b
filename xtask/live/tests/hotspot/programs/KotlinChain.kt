import java.util.concurrent.Callable

/** A chain through a sequence, a lazy property, inline functions, lambdas, extensions and a default argument. */
class KotlinChain : Callable<Int> {
    private val sides by lazy { listOf(1, 2, 3, 4) }

    override fun call(): Int = sides.asSequence().filter { it % 2 == 0 }.map { measure(Square(it)) }.sum()

    private fun measure(shape: Shape): Int = when (shape) {
        is Square -> shape.area { side -> scaled(side) }
        is Circle -> shape.radius
    }

    companion object {
        fun scaled(side: Int, factor: Int = 2): Int = side.plus { Chains.spin(factor) } + 1
    }
}

sealed interface Shape

data class Square(val side: Int) : Shape

data class Circle(val radius: Int) : Shape

inline fun Square.area(of: (Int) -> Int): Int = of(side) + 1

fun Int.plus(action: () -> Int): Int {
    var sum = this
    repeat(2) { sum += action() }
    return sum
}
