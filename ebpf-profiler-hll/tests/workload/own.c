/* A library with a thread-local variable that isn't its first. */
__thread long first = 7;
__thread long own = 1;

void set_own(long value) { first = -value; own = value; }

long get_own(void) { return own; }
