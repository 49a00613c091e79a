// Where a record begins whose first part has been removed (`cairn mpi trim`): of each rank the state in which
// an image of it is kept, and the block of its file that is the first one needed from there on. What is
// before is a hole in the file, so that places in it stay what they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"

namespace cairn::mpi {

struct Beginning {
    std::uint64_t position = 0;  // events of the trace before
    std::uint64_t event = 0;     // calls before, the one that it stands in included
    bool within = false;         // it stands in the call of its next event
    std::uint64_t offset = 0;    // in the file; 0: all of it is there
    std::uint32_t block = 0;     // the number of the block there
    bool removed = false;        // what is before has been given back, and reads as zeroes
    bool operator==(const Beginning&) const = default;
};

struct Beginnings {
    std::uint64_t job = 0;         // of the record
    std::vector<Beginning> ranks;  // none: the record is there from its beginning
};

// Code damaged: what is there can't be understood.
[[nodiscard]] Result<Beginnings> read_beginnings(const std::string& folder);
// Durably, and at once: who reads finds these or those that were there before.
[[nodiscard]] Result<> write_beginnings(const std::string& folder, const Beginnings& beginnings);

// Names that were given in it last through a crash of the machine.
[[nodiscard]] Result<> sync_folder(const std::string& path);

[[nodiscard]] std::string beginnings_path(const std::string& folder);
// Where the images are that belong to them.
[[nodiscard]] std::string kept_path(const std::string& folder);

}  // namespace cairn::mpi
