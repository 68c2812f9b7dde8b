// Functions of which the linker knows a version, one of C and one of C++.

extern "C" int first_made(int number) { return number * 3; }
__asm__(".symver first_made, made@@@VERSIONS_1");

namespace shop {
int bought(int number) { return number * 5; }
}
__asm__(".symver _ZN4shop6boughtEi, _ZN4shop4soldEi@@@VERSIONS_1");
