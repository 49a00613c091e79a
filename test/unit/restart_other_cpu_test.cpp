// Which CPU may go on with a checkpoint of another one, and how registers get from one's layout to the
// other's (restart/other_cpu.h, common/cpu_state.h).
#include <elf.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "common/cpu_features.h"
#include "common/linker_room.h"
#include "common/ptrace/thread.h"
#include "restart/other_cpu.h"

namespace cairn::restart {
namespace {

// As makers have laid them out: with MPX and PKRU (Skylake and later), with AVX-512 (Intel), with AVX-512
// (AMD since Zen 4), AVX alone.
const std::vector<StateComponent> avx_only{{2, 576, 256}};
const std::vector<StateComponent> intel{
    {2, 576, 256}, {5, 1088, 64}, {6, 1152, 512}, {7, 1664, 1024}, {9, 2688, 8}};
const std::vector<StateComponent> amd{
    {2, 576, 256}, {5, 832, 64}, {6, 896, 512}, {7, 1408, 1024}, {9, 2432, 8}};

StateBytes area_with(std::span<const StateComponent> layout, std::initializer_list<unsigned> used) {
    StateBytes area(size_of_state(layout));
    std::uint64_t bits = 3;
    for (std::size_t i = 0; i < 512; ++i) area[i] = static_cast<std::uint8_t>(i);
    for (const auto& component : layout) {
        if (std::ranges::find(used, component.number) == used.end()) continue;
        bits |= std::uint64_t{1} << component.number;
        for (std::size_t i = 0; i < component.size; ++i)
            area[component.offset + i] = static_cast<std::uint8_t>(component.number + i % 7);
    }
    std::memcpy(area.data() + 512, &bits, sizeof bits);
    return area;
}

TEST(RestartOtherCpu, RegistersMoveToWhereThisCpuHasThem) {
    for (const auto& [from, to] : {std::pair{intel, amd}, std::pair{amd, intel}}) {
        const auto moved = lay_out_state(area_with(from, {2, 5, 7, 9}), from, to);
        ASSERT_TRUE(moved.has_value());
        EXPECT_EQ(*moved, area_with(to, {2, 5, 7, 9}));
    }
}

TEST(RestartOtherCpu, ASmallerCpuTakesWhatItHasIfNothingElseIsInUse) {
    const auto moved = lay_out_state(area_with(intel, {2, 9}), intel, avx_only);
    ASSERT_TRUE(moved.has_value());
    EXPECT_EQ(*moved, area_with(avx_only, {2})) << "protection keys go";
    const auto refused = lay_out_state(area_with(intel, {2, 6}), intel, avx_only);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error(), 6U);
    EXPECT_STREQ(state_name(refused.error()), "AVX-512");
}

TEST(RestartOtherCpu, WhatIsZeroIsNotInUse) {
    auto area = area_with(intel, {5});
    std::fill_n(area.begin() + 1088, 64, std::uint8_t{0});
    EXPECT_TRUE(state_in_use(area, intel).empty());
    EXPECT_TRUE(lay_out_state(area, intel, avx_only).has_value());
}

// The last component's end may be zeros.
TEST(RestartOtherCpu, ZerosAtTheEndMayBeLeftOut) {
    auto area = area_with(intel, {2, 9});
    const auto keys = std::ranges::find(intel, 9U, &StateComponent::number);
    std::fill_n(area.begin() + keys->offset + 3, keys->size - 3, std::uint8_t{0});
    auto without = area;
    without.resize(size_without_zeros(area));
    EXPECT_EQ(without.size(), keys->offset + 3U);
    EXPECT_EQ(state_in_use(without, intel), state_in_use(area, intel));
    EXPECT_EQ(lay_out_state(without, intel, intel), lay_out_state(area, intel, intel));
    EXPECT_EQ(size_without_zeros(StateBytes(3000)), 576U);
    EXPECT_EQ(size_without_zeros(StateBytes(576)), 576U);
}

TEST(RestartOtherCpu, ADamagedLayoutLeadsNowhere) {
    const std::vector<StateComponent> beyond{{2, 4096, 256}, {5, 0xfffff, 0xfffff}};
    EXPECT_TRUE(state_in_use(area_with(intel, {2, 5}), beyond).empty());
}

// Another size PTRACE_SETREGSET would not take.
TEST(RestartOtherCpu, ThisOneIsLaidOutAsTheKernelShowsIt) {
    const auto here = cpu_state_layout();
    const pid_t child = ::fork();
    if (child == 0) {
        ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        ::raise(SIGSTOP);
        ::_exit(0);
    }
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const auto whole = [child] {
        StateBytes area(16384);
        iovec part = {area.data(), area.size()};
        EXPECT_EQ(::ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &part), 0);
        area.resize(part.iov_len);
        return area;
    };
    const auto before = whole();
    auto shown = ptrace::xstate(child);
    const auto shown_again = ptrace::xstate(child);  // without a large component that isn't in use
    auto changed = shown ? shown->bytes : StateBytes(576);
    changed[160] ^= 0x5a;  // in XMM0
    const auto set = ptrace::set_xstate(child, changed);
    const auto after = whole();
    ::kill(child, SIGKILL);
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_EQ(before.size(), size_of_state(here));
    ASSERT_TRUE(shown.has_value()) << shown.error().what;
    EXPECT_EQ(shown->whole_size, before.size());
    EXPECT_TRUE(shown_again && shown_again->bytes == shown->bytes &&
                shown_again->whole_size == shown->whole_size);
    EXPECT_EQ(shown->bytes.size(), size_without_zeros(before));
    shown->bytes.resize(before.size());
    EXPECT_EQ(shown->bytes, before);
    ASSERT_TRUE(set.has_value()) << set.error().what;
    changed.resize(after.size());
    EXPECT_EQ(changed, after);
}

schema::Manifest taken_on(std::vector<std::string> features, std::vector<StateComponent> state,
                          std::string level = {}) {
    schema::Manifest manifest;
    manifest.cpu_model = "that CPU";
    manifest.cpu_flags = std::move(features);
    manifest.cpu_state = std::move(state);
    manifest.cpu_level = std::move(level);
    return manifest;
}

std::vector<std::string> with(CpuLevel level, std::vector<std::string> more) {
    auto all = features_of(level);
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

TEST(RestartOtherCpu, WhatIsMissingIsNamedWithWhatWouldHaveHelped) {
    std::vector<std::string> notes;
    const Cpu here{with(CpuLevel::v3, {"xsavec"}), avx_only};
    const auto judged = judge_cpu(taken_on(with(CpuLevel::v4, {"sha_ni"}), intel), here, notes);
    ASSERT_FALSE(judged.has_value());
    EXPECT_EQ(judged.error().code, ExitCode::refused);
    EXPECT_EQ(
        judged.error().what,
        "this CPU lacks what that CPU had: avx512f avx512bw avx512cd avx512dq avx512vl sha_ni; a program "
        "that is launched with --cpu=x86-64-v3 can go on here");
}

TEST(RestartOtherCpu, ALevelAsksForNoMoreThanItHas) {
    std::vector<std::string> notes;
    const Cpu here{with(CpuLevel::v3, {}), avx_only};
    EXPECT_TRUE(
        judge_cpu(taken_on(with(CpuLevel::v4, {"sha_ni"}), intel, "x86-64-v3"), here, notes).has_value());
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_NE(notes[0].find("lacks avx512f avx512bw"), std::string::npos) << notes[0];
    EXPECT_NE(notes[0].find("sha_ni"), std::string::npos) << notes[0];
    EXPECT_FALSE(judge_cpu(taken_on(with(CpuLevel::v4, {}), intel, "x86-64-v4"), here, notes).has_value());
}

// glibc's lazy binding by plain XSAVE has room for the registers of the CPU that the program was executed on.
TEST(RestartOtherCpu, MoreRegistersThanTheLinkerHasRoomForAreRefused) {
    std::vector<std::string> notes;
    const Cpu large{with(CpuLevel::v4, {}), intel};
    auto manifest = taken_on(with(CpuLevel::v3, {}), avx_only);
    EXPECT_TRUE(judge_cpu(manifest, large, notes).has_value()) << "nothing is known of it";
    manifest.linker_room = 832;
    const auto refused = judge_cpu(manifest, large, notes);
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().what.find("take 2688 bytes"), std::string::npos) << refused.error().what;
    EXPECT_TRUE(judge_cpu(manifest, {with(CpuLevel::v3, {}), avx_only}, notes).has_value());
    manifest.linker_room = room_for_everything;
    EXPECT_TRUE(judge_cpu(manifest, large, notes).has_value());
}

TEST(RestartOtherCpu, TheLinkersRoomIsThatOfTheLayout) {
    std::size_t end = 576;
    for (const auto& component : cpu_state_layout())
        if (std::ranges::find(stored_by_linker, component.number) != std::end(stored_by_linker))
            end = std::max<std::size_t>(end, component.offset + component.size);
    EXPECT_EQ(linker_state_here(), end);
    EXPECT_EQ(linker_room_here(CpuLevel::v2), end);
}

TEST(RestartOtherCpu, LevelsAreToldByTheirEnvironment) {
    const std::string tunables = std::string("glibc.malloc.check=1:") + glibc_tunables(CpuLevel::v2);
    EXPECT_EQ(kept_cpu_level("x86-64-v2", tunables.c_str()), CpuLevel::v2);
    EXPECT_EQ(kept_cpu_level("x86-64-v3", tunables.c_str()), CpuLevel::v3) << "less is not more";
    EXPECT_EQ(kept_cpu_level("x86-64-v2", glibc_tunables(CpuLevel::v3)), CpuLevel::host);
    EXPECT_EQ(kept_cpu_level("x86-64-v2", nullptr), CpuLevel::host);
    EXPECT_EQ(kept_cpu_level(nullptr, tunables.c_str()), CpuLevel::host);
    EXPECT_EQ(kept_cpu_level("x86-64-v9", tunables.c_str()), CpuLevel::host);
}

}  // namespace
}  // namespace cairn::restart
