#include "common/cpu_features.h"

#include <cpuid.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>

namespace cairn {
namespace {

enum class Register { eax, ebx, ecx, edx };

// Registers that the kernel has to save for programs: bits of XCR0.
enum class State : std::uint64_t { plain = 0, avx = 0x6, avx512 = 0xe6, amx = 0x60000 };

struct Feature {
    const char* name;
    std::uint32_t leaf, subleaf;
    Register in;
    unsigned bit;
    State state;
};

// "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 2, CPUID; "AMD64 Architecture
// Programmer's Manual", volume 3, appendix E.
constexpr Feature features[] = {
    {"tsc", 1, 0, Register::edx, 4, State::plain},
    {"cx8", 1, 0, Register::edx, 8, State::plain},
    {"cmov", 1, 0, Register::edx, 15, State::plain},
    {"clflush", 1, 0, Register::edx, 19, State::plain},
    {"mmx", 1, 0, Register::edx, 23, State::plain},
    {"fxsr", 1, 0, Register::edx, 24, State::plain},
    {"sse", 1, 0, Register::edx, 25, State::plain},
    {"sse2", 1, 0, Register::edx, 26, State::plain},
    {"pni", 1, 0, Register::ecx, 0, State::plain},
    {"pclmulqdq", 1, 0, Register::ecx, 1, State::plain},
    {"ssse3", 1, 0, Register::ecx, 9, State::plain},
    {"fma", 1, 0, Register::ecx, 12, State::avx},
    {"cx16", 1, 0, Register::ecx, 13, State::plain},
    {"sse4_1", 1, 0, Register::ecx, 19, State::plain},
    {"sse4_2", 1, 0, Register::ecx, 20, State::plain},
    {"movbe", 1, 0, Register::ecx, 22, State::plain},
    {"popcnt", 1, 0, Register::ecx, 23, State::plain},
    {"aes", 1, 0, Register::ecx, 25, State::plain},
    {"xsave", 1, 0, Register::ecx, 26, State::plain},
    {"avx", 1, 0, Register::ecx, 28, State::avx},
    {"f16c", 1, 0, Register::ecx, 29, State::avx},
    {"rdrand", 1, 0, Register::ecx, 30, State::plain},
    {"fsgsbase", 7, 0, Register::ebx, 0, State::plain},
    {"bmi1", 7, 0, Register::ebx, 3, State::plain},
    {"hle", 7, 0, Register::ebx, 4, State::plain},
    {"avx2", 7, 0, Register::ebx, 5, State::avx},
    {"bmi2", 7, 0, Register::ebx, 8, State::plain},
    {"erms", 7, 0, Register::ebx, 9, State::plain},
    {"rtm", 7, 0, Register::ebx, 11, State::plain},
    {"avx512f", 7, 0, Register::ebx, 16, State::avx512},
    {"avx512dq", 7, 0, Register::ebx, 17, State::avx512},
    {"rdseed", 7, 0, Register::ebx, 18, State::plain},
    {"adx", 7, 0, Register::ebx, 19, State::plain},
    {"avx512ifma", 7, 0, Register::ebx, 21, State::avx512},
    {"clflushopt", 7, 0, Register::ebx, 23, State::plain},
    {"clwb", 7, 0, Register::ebx, 24, State::plain},
    {"avx512cd", 7, 0, Register::ebx, 28, State::avx512},
    {"sha_ni", 7, 0, Register::ebx, 29, State::plain},
    {"avx512bw", 7, 0, Register::ebx, 30, State::avx512},
    {"avx512vl", 7, 0, Register::ebx, 31, State::avx512},
    {"avx512vbmi", 7, 0, Register::ecx, 1, State::avx512},
    {"ospke", 7, 0, Register::ecx, 4, State::plain},
    {"waitpkg", 7, 0, Register::ecx, 5, State::plain},
    {"avx512_vbmi2", 7, 0, Register::ecx, 6, State::avx512},
    {"gfni", 7, 0, Register::ecx, 8, State::plain},
    {"vaes", 7, 0, Register::ecx, 9, State::avx},
    {"vpclmulqdq", 7, 0, Register::ecx, 10, State::avx},
    {"avx512_vnni", 7, 0, Register::ecx, 11, State::avx512},
    {"avx512_bitalg", 7, 0, Register::ecx, 12, State::avx512},
    {"avx512_vpopcntdq", 7, 0, Register::ecx, 14, State::avx512},
    {"rdpid", 7, 0, Register::ecx, 22, State::plain},
    {"cldemote", 7, 0, Register::ecx, 25, State::plain},
    {"movdiri", 7, 0, Register::ecx, 27, State::plain},
    {"movdir64b", 7, 0, Register::ecx, 28, State::plain},
    {"enqcmd", 7, 0, Register::ecx, 29, State::plain},
    {"avx512_4vnniw", 7, 0, Register::edx, 2, State::avx512},
    {"avx512_4fmaps", 7, 0, Register::edx, 3, State::avx512},
    {"fsrm", 7, 0, Register::edx, 4, State::plain},
    {"avx512_vp2intersect", 7, 0, Register::edx, 8, State::avx512},
    {"serialize", 7, 0, Register::edx, 14, State::plain},
    {"tsxldtrk", 7, 0, Register::edx, 16, State::plain},
    {"amx_bf16", 7, 0, Register::edx, 22, State::amx},
    {"avx512_fp16", 7, 0, Register::edx, 23, State::avx512},
    {"amx_tile", 7, 0, Register::edx, 24, State::amx},
    {"amx_int8", 7, 0, Register::edx, 25, State::amx},
    {"avx_vnni", 7, 1, Register::eax, 4, State::avx},
    {"avx512_bf16", 7, 1, Register::eax, 5, State::avx512},
    {"cmpccxadd", 7, 1, Register::eax, 7, State::plain},
    {"amx_fp16", 7, 1, Register::eax, 21, State::amx},
    {"avx_ifma", 7, 1, Register::eax, 23, State::avx},
    {"avx_vnni_int8", 7, 1, Register::edx, 4, State::avx},
    {"avx_ne_convert", 7, 1, Register::edx, 5, State::avx},
    {"avx_vnni_int16", 7, 1, Register::edx, 10, State::avx},
    {"prefetchiti", 7, 1, Register::edx, 14, State::plain},
    {"xsaveopt", 0xd, 1, Register::eax, 0, State::plain},
    {"xsavec", 0xd, 1, Register::eax, 1, State::plain},
    {"xgetbv1", 0xd, 1, Register::eax, 2, State::plain},
    {"lahf_lm", 0x80000001, 0, Register::ecx, 0, State::plain},
    {"abm", 0x80000001, 0, Register::ecx, 5, State::plain},
    {"sse4a", 0x80000001, 0, Register::ecx, 6, State::plain},
    {"misalignsse", 0x80000001, 0, Register::ecx, 7, State::plain},
    {"3dnowprefetch", 0x80000001, 0, Register::ecx, 8, State::plain},
    {"xop", 0x80000001, 0, Register::ecx, 11, State::avx},
    {"lwp", 0x80000001, 0, Register::ecx, 15, State::plain},
    {"fma4", 0x80000001, 0, Register::ecx, 16, State::avx},
    {"tbm", 0x80000001, 0, Register::ecx, 21, State::plain},
    {"mwaitx", 0x80000001, 0, Register::ecx, 29, State::plain},
    {"syscall", 0x80000001, 0, Register::edx, 11, State::plain},
    {"mmxext", 0x80000001, 0, Register::edx, 22, State::plain},
    {"rdtscp", 0x80000001, 0, Register::edx, 27, State::plain},
    {"lm", 0x80000001, 0, Register::edx, 29, State::plain},
    {"3dnowext", 0x80000001, 0, Register::edx, 30, State::plain},
    {"3dnow", 0x80000001, 0, Register::edx, 31, State::plain},
    {"clzero", 0x80000008, 0, Register::ebx, 0, State::plain},
    {"rdpru", 0x80000008, 0, Register::ebx, 4, State::plain},
};

// psABI for x86-64, 3.1.1, table 3.1, by the kernel's names. What the baseline has stands under v2.
constexpr std::pair<CpuLevel, const char*> level_features[] = {
    {CpuLevel::v2, "tsc"},      {CpuLevel::v2, "cx8"},      {CpuLevel::v2, "cmov"},
    {CpuLevel::v2, "clflush"},  {CpuLevel::v2, "mmx"},      {CpuLevel::v2, "fxsr"},
    {CpuLevel::v2, "sse"},      {CpuLevel::v2, "sse2"},     {CpuLevel::v2, "syscall"},
    {CpuLevel::v2, "lm"},       {CpuLevel::v2, "pni"},      {CpuLevel::v2, "ssse3"},
    {CpuLevel::v2, "sse4_1"},   {CpuLevel::v2, "sse4_2"},   {CpuLevel::v2, "cx16"},
    {CpuLevel::v2, "lahf_lm"},  {CpuLevel::v2, "popcnt"},   {CpuLevel::v2, "xsave"},
    {CpuLevel::v3, "avx"},      {CpuLevel::v3, "avx2"},     {CpuLevel::v3, "bmi1"},
    {CpuLevel::v3, "bmi2"},     {CpuLevel::v3, "f16c"},     {CpuLevel::v3, "fma"},
    {CpuLevel::v3, "abm"},      {CpuLevel::v3, "movbe"},    {CpuLevel::v4, "avx512f"},
    {CpuLevel::v4, "avx512bw"}, {CpuLevel::v4, "avx512cd"}, {CpuLevel::v4, "avx512dq"},
    {CpuLevel::v4, "avx512vl"}, {CpuLevel::v4, "xsavec"},
};

// In a virtual machine the hypervisor answers, which takes up to 10 us: each leaf is to be asked for once.
std::array<std::uint32_t, 4> ask(std::uint32_t leaf, std::uint32_t subleaf) {
    std::array<std::uint32_t, 4> said{};
    if (__get_cpuid_count(leaf, subleaf, &said[0], &said[1], &said[2], &said[3]) == 0) return {};
    return said;
}

// 0 where the kernel lets programs use nothing of the kind.
std::uint64_t enabled_states() {
    constexpr std::uint32_t osxsave = 1U << 27;
    if ((ask(1, 0)[static_cast<std::size_t>(Register::ecx)] & osxsave) == 0) return 0;
    std::uint32_t low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return std::uint64_t{high} << 32 | low;
}

}  // namespace

std::vector<std::string> cpu_features() {
    std::vector<std::string> found;
    const auto states = enabled_states();
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::array<std::uint32_t, 4>> asked;
    for (const auto& feature : features) {
        const auto needed = static_cast<std::uint64_t>(feature.state);
        const auto [at, fresh] = asked.try_emplace({feature.leaf, feature.subleaf});
        if (fresh) at->second = ask(feature.leaf, feature.subleaf);
        const auto said = at->second.at(static_cast<std::size_t>(feature.in));
        if ((said >> feature.bit & 1) != 0 && (states & needed) == needed) found.emplace_back(feature.name);
    }
    return found;
}

std::vector<std::string> known_cpu_features(const std::vector<std::string>& names) {
    std::vector<std::string> known;
    for (const auto& name : names)
        if (std::ranges::find(features, name, &Feature::name) != std::end(features)) known.push_back(name);
    return known;
}

std::vector<std::string> features_of(CpuLevel level) {
    std::vector<std::string> all;
    if (level == CpuLevel::host)
        for (const auto& feature : features) all.emplace_back(feature.name);
    for (const auto& [since, name] : level_features)
        if (level != CpuLevel::host && since <= level) all.emplace_back(name);
    return all;
}

}  // namespace cairn
