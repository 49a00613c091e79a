// Pages that are copied while their process stands still, and the room for them.
#include "capture/memory/still_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace cairn::capture {
namespace {

constexpr std::size_t page = 4096;

// Eight pages, each of its number.
class Memory {
  public:
    Memory()
        : at_(static_cast<std::uint8_t*>(
              ::mmap(nullptr, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        for (std::size_t i = 0; i < 8; ++i) std::fill_n(at_ + i * page, page, static_cast<std::uint8_t>(i));
    }
    ~Memory() { ::munmap(at_, 8 * page); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    [[nodiscard]] ProgramRange pages(std::size_t first, std::size_t end) const {
        const ProgramAddress start(reinterpret_cast<std::uintptr_t>(at_));
        return {start + first * page, start + end * page};
    }

  private:
    std::uint8_t* at_;
};

std::vector<StillPages::Wanted> three_pieces(const Memory& memory) {
    return {{memory.pages(1, 2), true}, {memory.pages(2, 4), true}, {memory.pages(6, 7), true}};
}

TEST(StillPages, EachPartHasItsContents) {
    const Memory memory;
    const auto room = std::make_shared<StillRoom>(16 * page, 4 * page);
    room->leave_off();
    const auto read = StillPages::read(::getpid(), three_pieces(memory), room);
    ASSERT_TRUE(read && *read != nullptr);
    const auto is_all = [&](ProgramRange range, std::uint8_t number) {
        const auto bytes = (*read)->at(range);
        return bytes.size() == range.length() && std::ranges::count(bytes, number) == std::ssize(bytes);
    };
    EXPECT_TRUE(is_all(memory.pages(1, 2), 1));
    EXPECT_TRUE(is_all(memory.pages(2, 3), 2));
    EXPECT_TRUE(is_all(memory.pages(3, 4), 3));
    EXPECT_TRUE(is_all(memory.pages(6, 7), 6));
    EXPECT_EQ((*read)->at(memory.pages(2, 4)).size(), 2 * page);
}

TEST(StillPages, WhatWasNotReadIsLeftAloneByACopy) {
    const Memory memory;
    const auto room = std::make_shared<StillRoom>(16 * page, 0);
    const auto read = StillPages::read(::getpid(), three_pieces(memory), room);
    ASSERT_TRUE(read && *read != nullptr);
    constexpr std::uint8_t untouched = 99;
    std::vector<std::uint8_t> to(5 * page, untouched);
    (*read)->copy(memory.pages(3, 8), to);
    constexpr std::array<std::uint8_t, 5> wanted{3, untouched, untouched, 6, untouched};
    for (std::size_t i = 0; i < wanted.size(); ++i)
        EXPECT_EQ(std::count(&to[i * page], &to[i * page] + page, wanted.at(i)), std::ptrdiff_t{page}) << i;
}

TEST(StillPages, ARoomGivesNoMoreThanItHas) {
    const Memory memory;
    const auto room = std::make_shared<StillRoom>(7 * page, 7 * page);
    ASSERT_TRUE(*StillPages::read(::getpid(), three_pieces(memory), room) != nullptr);
    const auto none = StillPages::read(::getpid(), three_pieces(memory), room);
    ASSERT_TRUE(none);
    EXPECT_EQ(*none, nullptr);
    room->begin_anew();
    EXPECT_TRUE(*StillPages::read(::getpid(), three_pieces(memory), room) != nullptr);
}

}  // namespace
}  // namespace cairn::capture
