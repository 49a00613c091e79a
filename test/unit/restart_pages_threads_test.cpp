// Threads that change one address space at once, as a userfaultfd tells of it: each change happens, is told
// of some time later, and its thread goes on when that has been read. What settle_order makes of it is
// compared with the truth.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <vector>

#include "restart/pages/order.h"
#include "test/causality/random.h"

namespace {

using namespace cairn::restart::pages;
using cairn::test::Random;

constexpr std::uint64_t page = 4096;
constexpr std::uint32_t pages = 120, none = ~0U;

class World {
  public:
    World(Random& random, std::size_t threads) : random_(random), threads_(threads) {
        for (std::uint32_t at = 2, name = 1; at + 14 < pages; ++name) {
            const std::uint32_t length = 3 + random_.below(8);
            for (std::uint32_t i = 0; i < length; ++i)
                memory_[at + i] = {name, random_.chance(60) ? next_content_ + i : none};
            next_content_ += length;
            areas_ = name;
            at += length + random_.below(6);
        }
    }

    // Until everything has been read and nobody changes anything.
    std::vector<Event> batch(std::size_t changes) {
        std::vector<Event> read;
        while (changes > 0 || !quiet()) {
            const std::uint32_t who = random_.below(static_cast<std::uint32_t>(threads_.size()) + 1);
            if (who == threads_.size()) {
                if (queue_.empty()) continue;
                read.push_back(queue_.front().event);
                Thread& thread = threads_[queue_.front().thread];
                queue_.pop_front();
                thread.queued = false;
                if (read.back().kind == Change::remove) drop(read.back());
                continue;
            }
            Thread& thread = threads_[who];
            if (thread.queued) continue;
            if (!thread.untold.empty()) {
                if (random_.chance(50)) continue;  // no processor just now
                queue_.push_back({thread.untold.front(), who});
                thread.untold.pop_front();
                thread.queued = true;
            } else if (changes > 0) {
                --changes;
                change(who);
            }
        }
        return read;
    }

    // Some of what is missing comes.
    void serve() {
        for (Page& each : memory_)
            if (random_.chance(20)) each.content = none;
    }

    [[nodiscard]] Missing missing() const {
        Missing missing;
        for (std::uint32_t i = 0; i < pages; ++i)
            if (memory_[i].content != none) missing.add(i * page, {(i + 1) * page, memory_[i].content, 0});
        return missing;
    }
    [[nodiscard]] bool registered(std::uint64_t address) const {
        const std::uint64_t at = address / page;
        return at < pages && memory_[at].area != 0 && !memory_[at].fresh;
    }

  private:
    struct Page {
        std::uint32_t area = 0;        // 0: nothing is mapped
        std::uint32_t content = none;  // of the image, if it is missing
        bool fresh = false;            // mapped since, and not registered
    };
    struct Thread {
        std::deque<Event> untold;
        bool queued = false;
    };
    struct Queued {
        Event event;
        std::uint32_t thread;
    };

    [[nodiscard]] bool quiet() const {
        for (const Thread& thread : threads_)
            if (thread.queued || !thread.untold.empty()) return false;
        return queue_.empty();
    }

    void drop(const Event& event) {
        for (std::uint64_t i = 0; i < event.length / page; ++i) memory_[event.from / page + i].content = none;
    }

    // A hole of this length; pages: none.
    std::uint32_t hole(std::uint32_t length) {
        for (int tries = 0; tries < 60; ++tries) {
            const std::uint32_t at = 1 + random_.below(pages - length - 1);
            bool free = true;
            for (std::uint32_t i = 0; i < length; ++i) free = free && memory_[at + i].area == 0;
            if (free) return at;
        }
        return pages;
    }

    // Of its own memory: programs don't move what another thread works with.
    void change(std::uint32_t who) {
        Thread& thread = threads_[who];
        const std::uint32_t area = 1 + random_.below(areas_);
        if (area % threads_.size() != who) return;
        std::uint32_t at = 0, length = 0;
        for (std::uint32_t i = 0; i < pages; ++i)
            if (memory_[i].area == area) {
                if (length == 0) at = i;
                ++length;
            }
        if (length == 0) return;
        const bool fresh = memory_[at].fresh;
        const auto told = [&](const Event& event) {
            if (!fresh) thread.untold.push_back(event);
        };
        const std::uint64_t from = at * page, bytes = length * page;
        switch (random_.below(6)) {
            case 0:
            case 1:
            case 2: {  // moves, and may grow
                const std::uint32_t more = random_.chance(30) ? 1 + random_.below(3) : 0;
                const std::uint32_t to = hole(length + more);
                if (to == pages) return;
                for (std::uint32_t i = 0; i < length; ++i)
                    memory_[to + i] = std::exchange(memory_[at + i], Page{});
                for (std::uint32_t i = 0; i < more; ++i) memory_[to + length + i] = {area, none, fresh};
                told({0, Change::remap, from, bytes, to * page});
                told({0, Change::unmap, from, bytes});
                return;
            }
            case 3: {  // goes; something new takes a place
                for (std::uint32_t i = 0; i < length; ++i) memory_[at + i] = {};
                told({0, Change::unmap, from, bytes});
                if (const std::uint32_t to = hole(length); to != pages && random_.chance(70))
                    for (std::uint32_t i = 0; i < length; ++i) memory_[to + i] = {area, none, true};
                return;
            }
            case 4: {  // shrinks
                if (length < 3) return;
                memory_[at + length - 1] = {};
                told({0, Change::unmap, from + bytes - page, page});
                return;
            }
            default: {  // pages go; told first
                const std::uint32_t first = random_.below(length), count = 1 + random_.below(length - first);
                told({0, Change::remove, from + first * page, count * page});
            }
        }
    }

    Random& random_;
    std::array<Page, pages> memory_;
    std::vector<Thread> threads_;
    std::deque<Queued> queue_;
    std::uint32_t next_content_ = 1, areas_ = 0;
};

Missing by_page(const Missing& missing) {
    Missing split;
    for (const auto& [start, piece] : missing.pieces())
        for (std::uint64_t at = start; at < piece.end; at += page)
            split.add(at, {at + page, piece.run, piece.skip + (at - start)});
    return split;
}

TEST(PagesThreads, WhatIsSettledIsTheTruth) {
    int batches = 0, unsettled = 0;
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
        Random random(seed);
        World world(random, 2 + random.below(2));
        Spaces spaces{{0, world.missing()}};
        for (int round = 0; round < 10; ++round) {
            const std::vector<Event> batch = world.batch(1 + random.below(4));
            const auto order = settle_order(spaces, batch, [&](SpaceId space, std::uint64_t address) {
                return space == 0 && world.registered(address);
            });
            ++batches;
            if (!order) {
                ++unsettled;
                break;
            }
            for (const std::size_t i : *order) apply(batch[i], spaces);
            ASSERT_EQ(by_page(spaces[0]), world.missing()) << "seed " << seed << ", round " << round;
            world.serve();
            spaces[0] = world.missing();
        }
    }
    // The programs would be ended. Here two or three threads fight for 120 pages.
    EXPECT_LT(unsettled, batches / 1000);
}

}  // namespace
