// The functions of an old vdso lead to the running one's, whatever is in what claims to be a vdso.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "common/vdso.h"
#include "restart/old_vdso.h"

namespace cairn::test {
namespace {

using restart::lead_vdso;

ProgramAddress address_of(std::span<const std::byte> bytes) {
    return ProgramAddress(reinterpret_cast<std::uint64_t>(bytes.data()));
}

// A vdso without the kernel's data beside it: what isn't led elsewhere reads garbage, or crashes.
class Copy {
  public:
    explicit Copy(std::span<const std::byte> vdso)
        : size_(vdso.size()),
          at_(static_cast<std::byte*>(::mmap(nullptr, 3 * size_, PROT_READ | PROT_WRITE | PROT_EXEC,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        std::memcpy(at_ + size_, vdso.data(), vdso.size());
    }
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;
    ~Copy() { ::munmap(at_, 3 * size_); }

    [[nodiscard]] std::span<std::byte> bytes() const { return {at_ + size_, size_}; }
    void patch(const std::vector<restart::VdsoPatch>& patches) const {
        for (const auto& patch : patches)
            std::ranges::copy(patch.code, bytes().begin() + static_cast<std::ptrdiff_t>(patch.offset));
    }
    template <class T>
    [[nodiscard]] T function(const std::string& name) const {
        for (const auto& each : vdso_functions(bytes()).value_or(std::vector<VdsoFunction>{}))
            if (each.name == name) return reinterpret_cast<T>(bytes().data() + each.offset);
        return nullptr;
    }

  private:
    std::size_t size_;
    std::byte* at_;
};

void expect_answers(const Copy& copy) {
    const auto clock = copy.function<int (*)(clockid_t, timespec*)>("__vdso_clock_gettime");
    const auto time_of = copy.function<time_t (*)(time_t*)>("__vdso_time");
    const auto processor = copy.function<int (*)(unsigned*, unsigned*, void*)>("__vdso_getcpu");
    ASSERT_TRUE(clock != nullptr && time_of != nullptr && processor != nullptr);
    timespec before = {}, told = {};
    ::clock_gettime(CLOCK_MONOTONIC, &before);
    EXPECT_EQ(clock(CLOCK_MONOTONIC, &told), 0);
    EXPECT_GE(told.tv_sec, before.tv_sec);
    EXPECT_LE(told.tv_sec, before.tv_sec + 60);
    EXPECT_LT(clock(12345, &told), 0);
    EXPECT_NEAR(static_cast<double>(time_of(nullptr)), static_cast<double>(::time(nullptr)), 2);
    unsigned cpu = ~0U;
    EXPECT_EQ(processor(&cpu, nullptr, nullptr), 0);
    EXPECT_LT(cpu, 4096U);
    using GetRandom = ssize_t (*)(void*, std::size_t, unsigned, void*, std::size_t);
    if (const auto random = copy.function<GetRandom>("__vdso_getrandom")) {
        std::array<std::byte, 64> one{}, other{};
        EXPECT_EQ(random(one.data(), one.size(), 0, nullptr, 0), 64);
        EXPECT_EQ(random(other.data(), other.size(), 0, nullptr, 0), 64);
        EXPECT_NE(one, other);
    }
}

TEST(RestartOldVdso, KnowsTheFunctions) {
    const auto functions = vdso_functions(running_vdso()).value_or(std::vector<VdsoFunction>{});
    for (const char* name : {"__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time", "__vdso_getcpu"})
        EXPECT_EQ(std::ranges::count(functions, name, &VdsoFunction::name), 1) << name;
}

TEST(RestartOldVdso, LeadsToTheRunningOne) {
    const Copy copy(running_vdso());
    const auto patches = lead_vdso(copy.bytes(), running_vdso(), address_of(running_vdso()));
    ASSERT_TRUE(patches) << patches.error().what;
    copy.patch(*patches);
    expect_answers(copy);
}

TEST(RestartOldVdso, LeadsFromOneToTheNext) {
    const Copy second(running_vdso()), first(running_vdso());
    first.patch(*lead_vdso(first.bytes(), second.bytes(), address_of(second.bytes())));
    second.patch(*lead_vdso(second.bytes(), running_vdso(), address_of(running_vdso())));
    expect_answers(first);
}

TEST(RestartOldVdso, CallsTheKernelWhereThereIsNone) {
    const Copy copy(running_vdso());
    const auto patches = lead_vdso(copy.bytes(), {}, ProgramAddress());
    ASSERT_TRUE(patches) << patches.error().what;
    copy.patch(*patches);
    expect_answers(copy);
}

TEST(RestartOldVdso, RefusesWhatItDoesntKnow) {
    const Copy copy(running_vdso());
    const std::string name = "__vdso_getcpu";
    auto found = std::ranges::search(copy.bytes(), std::as_bytes(std::span(name)));
    ASSERT_FALSE(found.empty());
    found[7] = std::byte{'b'};
    const auto patches = lead_vdso(copy.bytes(), running_vdso(), ProgramAddress());
    ASSERT_FALSE(patches);
    EXPECT_EQ(patches.error().what,
              "the vdso of the checkpoint's kernel has __vdso_betcpu, which this one hasn't");
    EXPECT_EQ(patches.error().code, ExitCode::refused);
}

TEST(RestartOldVdso, BelievesNothing) {
    EXPECT_FALSE(vdso_functions({}));
    const auto running = running_vdso();
    for (std::size_t size = 0; size < running.size(); size += 97) (void)vdso_functions(running.first(size));
    std::mt19937 random(7);
    const std::vector<std::byte> good(running.begin(), running.end());
    for (int round = 0; round < 5000; ++round) {
        auto bytes = good;
        // The headers and tables lie in the first pages; a value that is near to a good one leads furthest.
        for (int change = 0; change < 4; ++change)
            bytes[random() % std::min<std::size_t>(bytes.size(), 2048)] = static_cast<std::byte>(random());
        for (const auto& each : vdso_functions(bytes).value_or(std::vector<VdsoFunction>{}))
            ASSERT_LE(each.offset + each.size, bytes.size());
    }
}

}  // namespace
}  // namespace cairn::test
