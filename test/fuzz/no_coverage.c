// What code with -fsanitize-coverage calls, in programs without libFuzzer: libasan has the rest.
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {}

void __sanitizer_cov_trace_cmpf(float a, float b);
void __sanitizer_cov_trace_cmpf(float a, float b) {
    (void)a, (void)b;
}
void __sanitizer_cov_trace_cmpd(double a, double b);
void __sanitizer_cov_trace_cmpd(double a, double b) {
    (void)a, (void)b;
}
