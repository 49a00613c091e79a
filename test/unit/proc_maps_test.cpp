// The mappings of a process, of which /proc shows more text than is read at once.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/proc.h"

namespace cairn::proc {
namespace {

constexpr std::size_t page = 4096, count = 3000;

// Each of a page, no two neighbours alike.
class Mappings {
  public:
    Mappings()
        : begin_(
              ::mmap(nullptr, count * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
        EXPECT_NE(begin_, MAP_FAILED);
        for (std::size_t i = 1; i < count; i += 2)
            EXPECT_EQ(::mprotect(static_cast<char*>(begin_) + i * page, page, PROT_READ | PROT_WRITE), 0);
    }
    ~Mappings() { ::munmap(begin_, count * page); }
    Mappings(const Mappings&) = delete;
    Mappings& operator=(const Mappings&) = delete;

    [[nodiscard]] ProgramAddress at(std::size_t index) const {
        return ProgramAddress(reinterpret_cast<std::uint64_t>(begin_) + index * page);
    }

  private:
    void* begin_;
};

TEST(ProcMaps, EachLineIsReadOnceAndWhole) {
    const Mappings mappings;
    for (const bool with_flags : {false, true}) {
        const auto lines = maps(::getpid(), with_flags);
        ASSERT_TRUE(lines);
        EXPECT_TRUE(std::ranges::is_sorted(*lines, {}, &MapLine::start));
        auto line = std::ranges::find(*lines, mappings.at(0), &MapLine::start);
        for (std::size_t i = 0; i < count; ++i, ++line) {
            ASSERT_NE(line, lines->end());
            // The last ones may have been joined with what is mapped behind them.
            ASSERT_EQ(line->start, mappings.at(i));
            EXPECT_EQ(line->prot, i % 2 == 0 ? PROT_READ : PROT_READ | PROT_WRITE);
            EXPECT_TRUE(line->end == mappings.at(i + 1) || i + 1 == count);
            EXPECT_EQ(line->flags.find(" nr") != std::string::npos, with_flags) << line->flags;
            EXPECT_EQ(line->page_size, with_flags ? page : 0);
        }
    }
}

TEST(ProcMaps, AllPagesOfMappingsAreCounted) {
    const auto before = mapped_pages(::getpid());
    ASSERT_TRUE(before);
    {
        const Mappings mappings;
        EXPECT_GE(mapped_pages(::getpid()).value(), *before + count);
    }
    EXPECT_FALSE(mapped_pages(-1));
}

// What the kernel counts on each processor, and has not added up yet, is little beside this.
TEST(ProcMaps, FilesPagesArentAnonymous) {
    constexpr std::size_t many = 4096, length = many * page;
    const auto before = anonymous_pages(::getpid());
    ASSERT_TRUE(before);
    void* const memory =
        ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const auto with = anonymous_pages(::getpid());
    ::munmap(memory, length);
    void* const shared =
        ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    const auto with_shared = anonymous_pages(::getpid());
    ::munmap(shared, length);
    EXPECT_GT(with.value(), *before + many / 2);
    EXPECT_LT(with_shared.value(), *before + many / 2);
    EXPECT_FALSE(anonymous_pages(-1));
}

}  // namespace
}  // namespace cairn::proc
