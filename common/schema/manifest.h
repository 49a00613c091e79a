// manifest.json of a checkpoint's folder: what is in it and what a restart needs. Lenient structs: a reader
// takes a field that is missing as its default, and ignores one that it doesn't know.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/ids_text.h"

namespace cairn::schema {

struct ManifestImage {
    static constexpr bool lenient = true;
    std::string file;  // name in the folder
    std::string uid;   // uID of the process; "" for the objects image
    ProgramId pid;
    std::string name;  // comm
    std::uint64_t bytes = 0;
    std::int32_t part = 0;
};

// An image of an earlier generation, some of whose pages this one has as well. The file is here by a link of
// its own: that generation may be removed.
struct ManifestEarlier {
    static constexpr bool lenient = true;
    std::string file;  // name in the folder
    ProgramId pid;     // whose
    std::uint64_t bytes = 0;
};

// One restart process rebuilds one part: what was started on one terminal of one host.
struct ManifestPart {
    static constexpr bool lenient = true;
    std::int32_t number = 0;
    std::string host;
    std::string terminal;  // path when the checkpoint was taken, "" for none
    std::vector<ProgramId> pids;
};

// Where a host of the computation has written its part, and what it was called then.
struct ManifestHost {
    static constexpr bool lenient = true;
    std::string name;
    std::string folder;  // below the checkpoint's
    std::vector<std::string> addresses;
    std::vector<std::int32_t> parts;
};

// Where a component of the extended registers lies in the area that XSAVE fills.
struct StateComponent {
    static constexpr bool lenient = true;
    std::uint32_t number = 0;  // bit of XCR0
    std::uint32_t offset = 0, size = 0;
};

struct Manifest {
    static constexpr bool lenient = true;
    std::int32_t version = 1;
    std::string cid;
    std::int32_t np = 0;
    std::int32_t generation = 0;
    std::string session;
    std::string host, boot_id, kernel, cpu_model;
    std::vector<std::string> cpu_flags;
    std::vector<StateComponent> cpu_state;  // empty: taken by a cairn that didn't write it down
    std::uint32_t linker_room = 0;          // common/linker_room.h, the least of all programs; 0: not known
    std::string cpu_level;  // all programs were kept to this one by `cairn launch --cpu`; "": not all
    // Programs that make system calls past libcairn.so, in words, and so need the ids that they had; "":
    // none.
    std::string raw_ids;
    std::int64_t taken_at_ns = 0;  // CLOCK_REALTIME when the group stood still
    std::int64_t monotonic_ns = 0, boottime_ns = 0;
    std::int64_t pause_ns = 0, total_ns = 0;
    std::uint64_t bytes = 0;
    std::uint64_t saved_files =
        0;  // names in files.image, which goes back with the programs; 0: there is none
    std::vector<ManifestPart> parts;
    std::vector<ManifestHost> hosts;  // empty: one host, whose images are in this folder
    std::vector<ManifestImage> images;
    std::vector<ManifestEarlier> earlier;
    std::vector<std::string> notes;  // what could not be saved exactly, in words
};

}  // namespace cairn::schema
