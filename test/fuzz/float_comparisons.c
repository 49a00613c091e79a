// gcc reports comparisons of floating-point numbers too (-fsanitize-coverage=trace-cmp): libFuzzer has no use for them, and
// libasan, which has the other comparisons, doesn't know them.
void __sanitizer_cov_trace_cmpf(float a, float b);
void __sanitizer_cov_trace_cmpf(float a, float b) {
    (void)a, (void)b;
}
void __sanitizer_cov_trace_cmpd(double a, double b);
void __sanitizer_cov_trace_cmpd(double a, double b) {
    (void)a, (void)b;
}
