// What code with -fsanitize-coverage calls at every edge, in programs without libFuzzer.
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {}
