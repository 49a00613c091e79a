// Our duplicates of the programs' descriptors. There may be more open file descriptions than we may have
// descriptors: then those that can be had again, from a process that stands still, are let go of and taken
// when they are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "resources/capture/take.h"

namespace cairn::capture {

struct Description;

class Duplicates {
  public:
    // As many as the limit of descriptors leaves room for.
    Duplicates();
    // Which stays where it is: how a process sends what may not be taken from it (ObjectOptions::borrow).
    void borrow_by(const Borrow& borrow) { borrow_ = &borrow; }
    // From now on it may lose its duplicate. It must stay where it is.
    void add(const Description& description);
    // It is asked for: taken again if it isn't there; without success if its process has been killed.
    void use(const Description& description);
    void forget_all();

  private:
    void take_again(const Description& description);
    void make_room();
    const Borrow* borrow_ = nullptr;
    std::size_t most_, held_ = 0;
    std::uint64_t uses_ = 0;
    std::deque<const Description*> dispensable_;  // that have one, oldest first
};

}  // namespace cairn::capture
