// The library of `otel_context.c` that has the variable.
struct record;
__thread struct record *otel_thread_ctx_v1;
struct record *volatile *variable(void) { return (struct record *volatile *)&otel_thread_ctx_v1; }
