// For the trace: what messages are made of, by name, and what the program has made and not freed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "causality/event.h"
#include "mpi/interposer/mpi_library.h"

namespace cairn::mpi {

// A type by the basic types that it is made of, whatever their places in memory: "MPI_INT" is also what a
// vector of them is, "{MPI_INT MPI_DOUBLE*2}" what repeats. Types that MPI lets be sent and received as each
// other have the same name. Empty: too long to be said.
class TypeNames {
  public:
    struct Known {
        std::string name;
        std::uint64_t bytes = 0;  // of one of them
        // Of so many, as far as a trace can say.
        [[nodiscard]] std::uint32_t bytes_of(int count) const;
    };
    [[nodiscard]] const Known& of(MPI_Datatype type);
    // Its handle may be that of another one soon.
    void forget(std::uint64_t key) { known_.erase(key); }

  private:
    std::unordered_map<std::uint64_t, Known> known_;
};

// Several objects may have one handle: MPICH gives the group of a communicator again and counts.
class Objects {
  public:
    void made(causality::Leaked what, std::uint64_t key, std::uint32_t place) {
        made_[{what, key}].push_back(place);
    }
    void freed(causality::Leaked what, std::uint64_t key);
    // By place.
    [[nodiscard]] std::vector<causality::Leak> left() const;

  private:
    std::map<std::pair<causality::Leaked, std::uint64_t>, std::vector<std::uint32_t>> made_;
};

}  // namespace cairn::mpi
