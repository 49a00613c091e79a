#include "cli/cpu_variables.h"

#include <cstdlib>
#include <string>

namespace cairn::cli {
namespace {

struct Variable {
    const char* name;
    const char* between;  // what stands between the parts of a list, null: no list
    // values; null: as it is
    const char *v2, *v3, *v4;
};

// Who chooses by the processor's own answer (CPUID), and not as glibc does, has a variable of its own, or
// none (docs/decisions/0019-cpu-levels.md).
constexpr Variable variables[] = {
    // OpenBLAS, "Runtime environment variables"
    {"OPENBLAS_CORETYPE", nullptr, "Nehalem", "Haswell", "SkylakeX"},
    // numpy, "CPU/SIMD optimizations": names that the build doesn't dispatch to are passed over
    {"NPY_DISABLE_CPU_FEATURES", " ",
     "AVX F16C XOP FMA4 FMA3 AVX2 AVX512F AVX512CD AVX512_KNL AVX512_KNM AVX512_SKX AVX512_CLX AVX512_CNL "
     "AVX512_ICL AVX512_SPR",
     "XOP FMA4 AVX512F AVX512CD AVX512_KNL AVX512_KNM AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
     "XOP FMA4 AVX512_KNL AVX512_KNM AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"},
    // OPENSSL_ia32cap(3): bits to be taken away of CPUID leaf 1 (EDX, above it ECX) and of leaf 7 (EBX, above
    // it ECX).
    // In no level are AES, PCLMULQDQ, RDRAND and XOP; ADX, RDSEED, SHA, GFNI, VAES, VPCLMULQDQ and the later
    // parts of AVX-512.
    {"OPENSSL_ia32cap", nullptr, "~0x7240180200000000:~0x5f42fc2f0128", "~0x4200080200000000:~0x5f42fc2f0000",
     "~0x4200080200000000:~0x5f422c2c0000"},
    // Intel oneMKL, "Instruction set specific dispatching"
    {"MKL_ENABLE_INSTRUCTIONS", nullptr, "SSE4_2", "AVX2", "AVX512"},
    // oneDNN, "CPU dispatcher control"
    {"ONEDNN_MAX_CPU_ISA", nullptr, "SSE41", "AVX2", "AVX512_CORE"},
    {"DNNL_MAX_CPU_ISA", nullptr, "SSE41", "AVX2", "AVX512_CORE"},
    // PyTorch, aten/src/ATen/native/DispatchStub.cpp
    {"ATEN_CPU_CAPABILITY", nullptr, "default", "avx2", "avx512"},
    // Apache Arrow, "Environment variables"
    {"ARROW_USER_SIMD_LEVEL", nullptr, "SSE4_2", "AVX2", "AVX512"},
    // simdjson, "Implementation selection"
    {"SIMDJSON_FORCE_IMPLEMENTATION", nullptr, "westmere", "haswell", nullptr},
    // The Java virtual machine says on its standard error that it has taken it up.
    {"JAVA_TOOL_OPTIONS", " ",
     "-XX:UseAVX=0 -XX:UseSSE=4 -XX:-UseAES -XX:-UseSHA -XX:-UseFMA -XX:-UseBMI1Instructions "
     "-XX:-UseBMI2Instructions -XX:-UseRTMLocking",
     "-XX:UseAVX=2 -XX:-UseAES -XX:-UseSHA -XX:-UseRTMLocking", "-XX:-UseAES -XX:-UseSHA -XX:-UseRTMLocking"},
};

const char* value_for(const Variable& variable, CpuLevel level) {
    switch (level) {
        case CpuLevel::v2:
            return variable.v2;
        case CpuLevel::v3:
            return variable.v3;
        case CpuLevel::v4:
            return variable.v4;
        case CpuLevel::host:
            break;
    }
    return nullptr;
}

bool set(const char* name, const char* between, const char* value) {
    const char* before = std::getenv(name);
    if (between == nullptr || before == nullptr || *before == '\0') return ::setenv(name, value, 1) == 0;
    const std::string list = before;
    // A program of the session that launches another one has it already.
    if (list.ends_with(value)) return true;
    return ::setenv(name, (list + between + value).c_str(), 1) == 0;
}

}  // namespace

bool keep_within(CpuLevel level) {
    if (level == CpuLevel::host) return ::unsetenv(env_cpu) == 0;
    // Of one that is there twice glibc takes the last.
    bool good = set(env_glibc_tunables, ":", glibc_tunables(level));
    for (const auto& variable : variables)
        if (const char* value = value_for(variable, level); value != nullptr)
            good = set(variable.name, variable.between, value) && good;
    return good && ::setenv(env_cpu, std::string(name_of(level)).c_str(), 1) == 0;
}

}  // namespace cairn::cli
