// `cairn launch --cpu=LEVEL`: programs are kept to the instructions of one of the levels that the psABI has
// for x86-64 ("System V Application Binary Interface, AMD64 Architecture Processor Supplement", 3.1.1), so
// that a checkpoint can be restarted on every machine that has those. What keeps them is their environment
// (cli/cpu_variables.h): the dynamic linker chooses libraries and functions by it.
//
// The static front and the hijack library include this as well: no allocation.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn {

// In the order in which each has what the ones before it have. host: whatever the machine has.
enum class CpuLevel : std::uint32_t { v2 = 2, v3 = 3, v4 = 4, host = 5 };

inline constexpr const char* env_cpu = "CAIRN_CPU";
inline constexpr const char* env_glibc_tunables = "GLIBC_TUNABLES";

inline constexpr std::array<std::pair<CpuLevel, std::string_view>, 4> cpu_level_names{
    {{CpuLevel::v2, "x86-64-v2"},
     {CpuLevel::v3, "x86-64-v3"},
     {CpuLevel::v4, "x86-64-v4"},
     {CpuLevel::host, "host"}}};

constexpr std::optional<CpuLevel> cpu_level(std::string_view name) {
    for (const auto& [level, its_name] : cpu_level_names)
        if (its_name == name) return level;
    return {};
}

constexpr std::string_view name_of(CpuLevel level) {
    for (const auto& [known, name] : cpu_level_names)
        if (known == level) return name;
    return {};
}

// What glibc is told not to use, "" for host: by the names that it has for features since 2.33, and, with
// _Usable, had before (sysdeps/x86/cpu-features.c); it passes over names that it doesn't know. RTM and FMA4
// are in no level. XSAVEC, which the linker would use for lazy binding, is in v4 alone: every machine with
// AVX-512 has it, and many without haven't. The plain XSAVE that it uses otherwise stores whatever state the
// machine has (restart/other_cpu.h).
constexpr const char* glibc_tunables(CpuLevel level) {
    switch (level) {
        case CpuLevel::v2:
            return "glibc.cpu.hwcaps=-RTM,-RTM_Usable,-FMA4,-FMA4_Usable,-XSAVEC,-XSAVEC_Usable,-AVX512F,-"
                   "AVX512CD,"
                   "-AVX512BW,-AVX512DQ,-AVX512VL,-AVX512ER,-AVX512PF,-AVX512F_Usable,-AVX512DQ_Usable,"
                   "-AVX,-AVX2,-FMA,-F16C,-BMI1,-BMI2,-LZCNT,-MOVBE,-AVX_Usable,-AVX2_Usable,-FMA_Usable,"
                   "-AVX_Fast_Unaligned_Load";
        case CpuLevel::v3:
            return "glibc.cpu.hwcaps=-RTM,-RTM_Usable,-FMA4,-FMA4_Usable,-XSAVEC,-XSAVEC_Usable,-AVX512F,-"
                   "AVX512CD,"
                   "-AVX512BW,-AVX512DQ,-AVX512VL,-AVX512ER,-AVX512PF,-AVX512F_Usable,-AVX512DQ_Usable";
        case CpuLevel::v4:
            return "glibc.cpu.hwcaps=-RTM,-RTM_Usable,-FMA4,-FMA4_Usable";
        case CpuLevel::host:
            break;
    }
    return "";
}

// The level that a program is kept to, by the two variables of its environment (null: not there). One whose
// tunables are others is kept to nothing.
inline CpuLevel kept_cpu_level(const char* level, const char* tunables) {
    if (level == nullptr || tunables == nullptr) return CpuLevel::host;
    const CpuLevel wanted = cpu_level(level).value_or(CpuLevel::host);
    return std::strstr(tunables, glibc_tunables(wanted)) != nullptr ? wanted : CpuLevel::host;
}

}  // namespace cairn
