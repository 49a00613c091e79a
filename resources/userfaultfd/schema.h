// What an image says of a userfaultfd(2).
#pragma once

#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/program_address.h"
#include "common/schema/field.h"

namespace cairn::schema {

struct WatchedRange {
    ProgramAddress start;
    std::uint64_t length = 0;
    std::uint32_t modes = 0;  // UFFDIO_REGISTER_MODE_*
    // Address and length: what is in the page tables, be it zero, and what of this is write-protected.
    std::vector<std::pair<ProgramAddress, std::uint64_t>> present, write_protected;
};

struct Userfaultfd {
    static constexpr std::string_view kind = "userfaultfd";
    bool begun = false;          // by UFFDIO_API, with these:
    std::uint64_t features = 0;  // UFFD_FEATURE_*
    ProgramId process;           // whose memory it watches
    std::vector<WatchedRange> ranges;
};

template <Struct<WatchedRange> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(start);
    CAIRN_FIELD(length);
    CAIRN_FIELD_WITHIN(modes, 0, 7);
    CAIRN_FIELD(present);
    CAIRN_FIELD(write_protected);
}

template <Struct<Userfaultfd> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(begun);
    CAIRN_FIELD(features);
    CAIRN_FIELD(process);
    CAIRN_FIELD(ranges);
}

}  // namespace cairn::schema
