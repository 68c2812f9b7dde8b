/* A library with two thread-local variables. */
__thread long first = 7;
__thread long own = 1;

void set_own(long value) { first = -value; own = value; }

long get_own(void) { return own; }
