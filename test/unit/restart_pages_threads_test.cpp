// Threads that change one address space at once, as a userfaultfd tells of it: each is held at the end of its
// call, each call is told of some time later, in any order. What apply_all() and missing_at_birth() make of
// it is compared with the truth, in every order in which the calls can have happened.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "restart/pages/changes.h"
#include "test/causality/random.h"

namespace {

using namespace cairn::restart::pages;
using cairn::ProgramAddress;
using cairn::test::Random;

constexpr std::uint64_t page = 4096;
constexpr std::uint32_t pages = 40, none = ~0U;

ProgramAddress address_of(std::uint32_t number) {
    return ProgramAddress(number * page);
}

struct Page {
    std::uint32_t area = 0;        // 0: nothing is mapped
    std::uint32_t content = none;  // of the image, if it is missing
    bool registered = false;       // not: mapped since the restart
};
using Memory = std::array<Page, pages>;

// What one thread does, with memory of its own: programs don't work with what another thread moves.
enum class Call { unmap, part, move, move_onto, grow, shrink, drop, fork, map_new };
struct Plan {
    Call call = Call::unmap;
    std::uint32_t area = 0, other = 0;  // of the thread's own; `other`: what it moves onto
    std::uint32_t first = 0, count = 0, wish = 0;
};

struct Extent {
    std::uint32_t at = 0, length = 0;
};
Extent find_area(const Memory& memory, std::uint32_t area) {
    Extent result;
    for (std::uint32_t i = 0; i < pages; ++i)
        if (memory[i].area == area) {
            if (result.length == 0) result.at = i;
            ++result.length;
        }
    return result;
}

std::optional<std::uint32_t> find_hole(const Memory& memory, std::uint32_t length, std::uint32_t wish) {
    for (std::uint32_t tries = 0; tries < pages; ++tries) {
        const std::uint32_t at = 1 + (wish + tries) % (pages - 1);
        if (at + length > pages) continue;
        bool empty = true;
        for (std::uint32_t i = at; i < at + length; ++i) empty = empty && memory[i].area == 0;
        if (empty) return at;
    }
    return std::nullopt;
}

// The memory, and what has been told of each thread, in the order of its own call.
class World {
  public:
    explicit World(const Memory& memory) : memory_(memory) {}

    void run(const Plan& plan, std::vector<Event>& told, std::vector<Memory>& births) {
        const auto [at, length] = find_area(memory_, plan.area);
        if (plan.call == Call::fork) {
            births.push_back(memory_);
            told.push_back({.kind = Change::fork});
            return;
        }
        if (plan.call == Call::map_new) {
            if (const auto to = find_hole(memory_, 3, plan.wish))
                for (std::uint32_t i = 0; i < 3; ++i) memory_[*to + i] = {1000 + plan.area, none, false};
            return;
        }
        if (length == 0) return;
        const auto clear = [&](std::uint32_t from, std::uint32_t count) {
            bool tell = false;
            for (std::uint32_t i = from; i < from + count; ++i)
                tell = std::exchange(memory_[i], {}).registered || tell;
            if (tell)
                told.push_back({.kind = Change::unmap, .from = address_of(from), .length = count * page});
        };
        const auto move = [&](std::uint32_t to, std::uint32_t more) {
            const bool registered = memory_[at].registered;
            std::vector<Page> moved;
            for (std::uint32_t i = 0; i < length; ++i)
                moved.push_back(std::exchange(memory_[at + i], Page{}));
            for (std::uint32_t i = 0; i < more; ++i) moved.push_back({plan.area, none, registered});
            std::ranges::copy(moved, memory_.begin() + to);
            if (!registered) return;
            told.push_back({.kind = Change::remap,
                            .from = address_of(at),
                            .length = length * page,
                            .to = address_of(to)});
            told.push_back({.kind = Change::unmap, .from = address_of(at), .length = length * page});
        };
        switch (plan.call) {
            case Call::unmap:
                return clear(at, length);
            case Call::part:
            case Call::shrink: {
                const auto first = plan.call == Call::shrink ? length - 1 : plan.first % length;
                return clear(at + first, 1 + plan.count % (length - first));
            }
            case Call::move:
                if (const auto to = find_hole(memory_, length, plan.wish)) move(*to, 0);
                return;
            case Call::move_onto: {
                const auto target = find_area(memory_, plan.other);
                if (target.length < length || plan.other == plan.area) return;
                clear(target.at, length);
                return move(target.at, 0);
            }
            case Call::grow:
                if (at + length < pages && memory_[at + length].area == 0)
                    memory_[at + length] = {plan.area, none, memory_[at].registered};
                else if (const auto to = find_hole(memory_, length + 1, plan.wish))
                    move(*to, 1);
                return;
            case Call::drop: {  // told first
                const auto first = plan.first % length, count = 1 + plan.count % (length - first);
                if (memory_[at].registered)
                    told.push_back(
                        {.kind = Change::remove, .from = address_of(at + first), .length = count * page});
                for (std::uint32_t i = 0; i < count; ++i) memory_[at + first + i].content = none;
                return;
            }
            default:
                return;
        }
    }

    [[nodiscard]] const Memory& memory() const { return memory_; }

  private:
    Memory memory_;
};

Missing missing_in(const Memory& memory) {
    Missing missing;
    for (std::uint32_t i = 0; i < pages; ++i)
        if (memory[i].content != none) missing.add(address_of(i), {address_of(i + 1), memory[i].content, 0});
    return missing;
}

struct Start {
    Memory memory;
    std::uint32_t areas = 0;
};
Start random_start(Random& random) {
    Start start;
    std::uint32_t content = 1;
    for (std::uint32_t at = 1; at + 6 < pages;) {
        const std::uint32_t length = 1 + random.below(5);
        const bool registered = random.chance(85);
        ++start.areas;
        for (std::uint32_t i = 0; i < length; ++i)
            start.memory[at + i] = {start.areas, registered && random.chance(70) ? content++ : none,
                                    registered};
        at += length + random.below(3);
    }
    return start;
}

std::vector<Plan> random_plans(Random& random, std::uint32_t areas, std::uint32_t threads) {
    std::vector<Plan> plans;
    for (std::uint32_t who = 0; who < threads; ++who) {
        const auto own = [&] {
            std::uint32_t area = 1 + random.below(areas);
            while (area % threads != who) area = area % areas + 1;
            return area;
        };
        plans.push_back({static_cast<Call>(random.below(9)), own(), own(), random.below(5), random.below(5),
                         random.below(pages)});
    }
    return plans;
}

// One thread's events stay in their order; of different threads, any.
std::vector<Event> any_order(Random& random, std::vector<std::vector<Event>> told) {
    std::vector<Event> result;
    while (!told.empty()) {
        const auto who = random.below(static_cast<std::uint32_t>(told.size()));
        if (told[who].empty()) {
            told.erase(told.begin() + who);
            continue;
        }
        result.push_back(told[who].front());
        told[who].erase(told[who].begin());
    }
    return result;
}

Registered asked(const Memory& memory) {
    return [&memory](ProgramAddress address) {
        const auto number = address.value() / page;
        return number < pages && memory[number].registered;
    };
}

TEST(PagesThreads, WhatIsAppliedIsTheTruthInEveryOrder) {
    std::uint64_t batches = 0, births_seen = 0, in_doubt = 0;
    for (std::uint64_t seed = 0; seed < 4000; ++seed) {
        Random random(seed);
        const Start start = random_start(random);
        const auto plans = random_plans(random, start.areas, 2 + random.below(3));
        std::vector<std::size_t> order(plans.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        do {
            World world(start.memory);
            std::vector<std::vector<Event>> told;
            std::vector<Memory> births;
            for (const auto i : order) world.run(plans[i], told.emplace_back(), births);
            const auto before = missing_in(start.memory);
            const auto batch = any_order(random, told);
            const auto after = apply_all(before, batch);
            ++batches;
            ASSERT_TRUE(after) << "seed " << seed;
            ASSERT_EQ(*after, missing_in(world.memory())) << "seed " << seed;
            for (const auto& born : births) {
                const auto child = missing_at_birth(before, batch, asked(born), asked(world.memory()));
                ++births_seen;
                if (!child) {
                    ++in_doubt;
                    continue;
                }
                // what was dropped while it was born may be there or not: nobody can tell, natively either
                auto expected = missing_in(born), found = *child;
                for (const auto& event : batch)
                    if (event.kind == Change::remove) {
                        expected.erase(event.from, event.from + event.length);
                        found.erase(event.from, event.from + event.length);
                    }
                ASSERT_EQ(found, expected) << "seed " << seed;
            }
        } while (std::ranges::next_permutation(order).found);
    }
    EXPECT_GT(batches, 20'000u);
    EXPECT_GT(births_seen, 5'000u);
    EXPECT_LT(in_doubt, births_seen / 100);  // memory has grown to where something was unmapped
}

}  // namespace
