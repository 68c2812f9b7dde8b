// C++: namespaces, templates, lambdas, virtual calls, exceptions, operators, anonymous namespaces.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace geometry {

template <typename T> struct Point {
    T x, y;
    T dot(const Point &other) const { return x * other.x + y * other.y; }
    Point operator+(const Point &other) const { return {static_cast<T>(x + other.x), static_cast<T>(y + other.y)}; }
};

namespace {
__attribute__((noinline)) int hidden(int value) { return value * 7 + 1; }
} // namespace

class Shape {
public:
    virtual ~Shape() = default;
    virtual double area() const = 0;
};

class Square final : public Shape {
public:
    explicit Square(double side) : side_(side) {
        if (side < 0) {
            throw std::invalid_argument("negative side " + std::to_string(side));
        }
    }
    double area() const override { return side_ * side_; }

private:
    double side_;
};

template <typename T, typename F> __attribute__((noinline)) T fold(const std::vector<T> &all, T start, F &&step) {
    for (const T &one : all) {
        start = step(start, one);
    }
    return start;
}

} // namespace geometry

int main(int argc, char **argv) {
    using namespace geometry;
    std::vector<int> numbers;
    for (int i = 0; i < argc * 10; i++) {
        numbers.push_back(hidden(i));
    }
    std::sort(numbers.begin(), numbers.end(), [](int a, int b) { return a > b; });
    int sum = fold(numbers, 0, [&](int a, int b) { return a + Point<int>{a, b}.dot({b, a}); });
    Point<short> moved = Point<short>{1, 2} + Point<short>{short(argc), 4};
    try {
        std::unique_ptr<Shape> shape = std::make_unique<Square>(argc - 1);
        std::printf("%d %d %f\n", sum, moved.x, shape->area());
    } catch (const std::exception &error) {
        std::printf("%s %s\n", argv[0], error.what());
    }
    return 0;
}
