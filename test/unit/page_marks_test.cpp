// Which pages count as unchanged: what is left of the marked ones, and where an earlier generation has them.
// And what the kernel says of this process's own memory, where it can be asked.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "capture/memory/marks.h"
#include "common/image/format.h"

namespace cairn {
namespace {

using capture::PageRanges;

constexpr ProgramAddress base(0x100000);

PageRanges of_bits(const std::vector<bool>& bits) {
    PageRanges ranges;
    for (std::size_t i = 0; i < bits.size(); ++i) {
        if (!bits[i]) continue;
        const auto at = base + i * image_page;
        if (!ranges.empty() && ranges.back().end == at)
            ranges.back().end = at + image_page;
        else
            ranges.push_back({at, at + image_page});
    }
    return ranges;
}

std::vector<bool> bits_of(const PageRanges& ranges, std::size_t count) {
    std::vector<bool> bits(count);
    for (const auto& range : ranges) {
        EXPECT_LT(range.start, range.end);
        for (auto at = range.start; at < range.end; at += image_page) bits[(at - base) / image_page] = true;
    }
    return bits;
}

TEST(PageMarks, RangesAreSetsOfPages) {
    std::mt19937 random(7);
    for (int round = 0; round < 2000; ++round) {
        const std::size_t count = 1 + random() % 40;
        const auto often = 1 + random() % 5;
        std::vector<bool> a(count), b(count), rest(count), both(count);
        for (std::size_t i = 0; i < count; ++i) {
            a[i] = random() % often == 0;
            b[i] = random() % 3 == 0;
            rest[i] = a[i] && !b[i];
            both[i] = a[i] && b[i];
        }
        EXPECT_EQ(bits_of(capture::without(of_bits(a), of_bits(b)), count), rest);
        EXPECT_EQ(bits_of(capture::in_both(of_bits(a), of_bits(b)), count), both);
        EXPECT_EQ(capture::length_of(of_bits(a)),
                  static_cast<std::uint64_t>(std::ranges::count(a, true)) * image_page);
    }
}

class OwnPageMarks : public testing::Test {
  protected:
    static constexpr std::size_t pages = 64;
    void SetUp() override {
        if (!capture::has_marks_to_believe()) GTEST_SKIP() << "Linux before 6.17";
        constexpr long user_mode_only = 1;
        Fd made(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | user_mode_only)));
        if (!made) GTEST_SKIP() << "no userfaultfd";
        auto begun = capture::MarkMaker::begin(std::move(made));
        ASSERT_TRUE(begun) << begun.error().what;
        maker_.emplace(std::move(*begun));
        memory_ = static_cast<char*>(
            ::mmap(nullptr, pages * image_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        ASSERT_NE(memory_, MAP_FAILED);
        std::memset(memory_, 1, pages * image_page / 2);  // the second half isn't there
        auto marks = capture::PageMarks::of(::getpid());
        ASSERT_TRUE(marks);
        marks_.emplace(std::move(*marks));
    }
    void TearDown() override {
        if (memory_ != nullptr) ::munmap(memory_, pages * image_page);
    }
    [[nodiscard]] ProgramRange range(std::size_t first, std::size_t count) const {
        const ProgramAddress start(reinterpret_cast<std::uint64_t>(memory_) + first * image_page);
        return {start, start + count * image_page};
    }
    char* memory_ = nullptr;
    std::optional<capture::MarkMaker> maker_;
    std::optional<capture::PageMarks> marks_;
};

TEST_F(OwnPageMarks, AreOnlyWhereTheyAreAllowed) {
    EXPECT_FALSE(marks_->can_have_any(range(0, pages)));
    const auto none = marks_->set(range(0, pages));
    EXPECT_TRUE(!none || none->empty());
    ASSERT_TRUE(maker_->allow(range(0, pages)));
    EXPECT_TRUE(maker_->allow(range(0, pages)));  // again
    EXPECT_TRUE(marks_->can_have_any(range(0, pages)));
    EXPECT_FALSE(marks_->has_any(range(0, pages)));
    const auto set = marks_->set(range(0, pages));
    ASSERT_TRUE(set);
    EXPECT_EQ(*set, PageRanges{range(0, pages / 2)});
    maker_->let_go(range(0, pages));
    EXPECT_FALSE(marks_->can_have_any(range(0, pages)));
    const auto seen = marks_->look(range(0, pages));
    ASSERT_TRUE(seen);
    EXPECT_TRUE(seen->marked.empty());
}

// What isn't there must get none: its first write would leave a page of zeros with a mark for a moment.
TEST_F(OwnPageMarks, WhoWritesTakesThemAway) {
    ASSERT_TRUE(maker_->allow(range(0, pages)));
    ASSERT_TRUE(marks_->set(range(0, pages)));
    memory_[5 * image_page] = 2;
    memory_[40 * image_page] = 3;                                          // was not there
    EXPECT_EQ(*const_cast<volatile char*>(memory_ + 50 * image_page), 0);  // the page of zeros
    const auto seen = marks_->look(range(0, pages));
    ASSERT_TRUE(seen);
    EXPECT_EQ(seen->marked, (PageRanges{range(0, 5), range(6, pages / 2 - 6)}));
    EXPECT_EQ(seen->written, (PageRanges{range(5, 1), range(40, 1)}));
    const auto set = marks_->set(range(0, pages));
    ASSERT_TRUE(set);
    EXPECT_EQ(*set, (PageRanges{range(5, 1), range(40, 1)}));
    ASSERT_EQ(::madvise(memory_ + 8 * image_page, image_page, MADV_DONTNEED), 0);
    memory_[8 * image_page] = 1;
    const auto later = marks_->look(range(0, 16));
    ASSERT_TRUE(later);
    EXPECT_EQ(later->written, PageRanges{range(8, 1)});
}

// More answers than the kernel collects at a time, and than there is room for: each page is in one of them.
TEST_F(OwnPageMarks, ManyRangesAreToldOnce) {
    constexpr std::size_t many = 4'096;
    auto* const memory = static_cast<char*>(
        ::mmap(nullptr, many * image_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    std::memset(memory, 1, many * image_page);
    const ProgramAddress start(reinterpret_cast<std::uint64_t>(memory));
    const ProgramRange all{start, start + many * image_page};
    ASSERT_TRUE(maker_->allow(all));
    for (const std::size_t each : {1'000UZ, 17UZ, 16UZ, 9UZ, 8UZ, 7UZ, 5UZ, 4UZ, 3UZ, 2UZ}) {
        ASSERT_TRUE(marks_->set(all));
        PageRanges written;
        for (std::size_t i = each / 2; i < many; i += each) {
            memory[i * image_page] = 2;
            written.push_back({start + i * image_page, start + (i + 1) * image_page});
        }
        const auto seen = marks_->look(all);
        ASSERT_TRUE(seen);
        EXPECT_EQ(seen->written, written) << each;
        EXPECT_EQ(seen->marked, capture::without({all}, written)) << each;
        const auto set = marks_->set(all);
        ASSERT_TRUE(set);
        EXPECT_EQ(*set, written) << each;
    }
    ::munmap(memory, many * image_page);
}

}  // namespace
}  // namespace cairn
