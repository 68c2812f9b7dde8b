import java.util.concurrent.Callable

/** A chain through a collection, a lazy value, a pattern, a trait, closures and an argument by name. */
class ScalaChain extends Callable[Integer] {
  private lazy val tiles = for (side <- List(1, 2, 3, 4)) yield Tile(side)

  override def call(): Integer = tiles.map(measure).sum

  private def measure(figure: Figure): Int = figure match {
    case Tile(side) if side > 2 => ScalaChain.twice(Chains.spin(side)) + 1
    case other => other.area + 1
  }
}

object ScalaChain {
  def twice(value: => Int): Int = value + value
}

trait Figure {
  def side: Int

  def area: Int = ScalaChain.twice { Chains.spin(side) + 1 }
}

case class Tile(side: Int) extends Figure
