/* Spins on a stack that it made for a profiler: each frame takes the longest search for a return address. */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { SPIN = 0x100, CALL = 0x200, PLAIN = 0x300, FRAME = 24, FRAMES = 4000 };

int main(void)
{
    uint8_t *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t *stack = mmap(0, FRAME * FRAMES * 8 + 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(code, 0x90, 4096);
    memcpy(code + SPIN, "\xeb\xfe", 2); /* jmp . */
    int32_t distance = SPIN - (CALL + 5);
    code[CALL] = 0xe8; /* call SPIN */
    memcpy(code + CALL + 1, &distance, 4);
    for (int frame = 0; frame < FRAMES; frame++)
        for (int word = 0; word < FRAME; word++)
            stack[frame * FRAME + word] = (uint64_t)code + (word == FRAME - 1 ? CALL + 5 : PLAIN + 8 * word);
    __asm__ volatile("mov %0, %%rsp; mov $1, %%ebp; jmp *%1" : : "r"(stack), "r"(code + SPIN) : "memory");
    return 1;
}
