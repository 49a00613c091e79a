// What an image says of a ring of io_uring(7) in which nothing is under way.
#pragma once

#include <vector>

#include "common/ids.h"
#include "common/schema/field.h"

namespace cairn::schema {

// A slot of the table of registered files (IORING_REGISTER_FILES).
struct RingFile {
    std::uint32_t slot = 0;
    std::int64_t object = -1;  // Object id
};

// A registered buffer (IORING_REGISTER_BUFFERS); without a length it is a free slot.
struct RingBuffer {
    std::uint64_t address = 0;
    std::uint64_t length = 0;  // bytes
};

struct IoUring {
    static constexpr std::string_view kind = "io_uring";
    std::uint32_t entries = 0;      // of the submission queue
    std::uint32_t completions = 0;  // places in the completion queue
    std::vector<std::uint32_t>
        offsets;                   // where the kernel keeps what: struct io_sqring_offsets, io_cqring_offsets
    std::uint32_t taken = 0;       // requests that the kernel has taken, since the ring was set up
    std::uint32_t posted = 0;      // completions that it has posted
    Bytes ring;                    // the memory at IORING_OFF_SQ_RING
    Bytes requests;                // and at IORING_OFF_SQES
    std::uint32_t file_slots = 0;  // 0: no files are registered
    std::vector<RingFile> files;   // those slots that have one
    std::vector<RingBuffer> buffers;
    ProgramId holder;  // whose memory these are in
};

template <Struct<RingFile> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(slot);
    CAIRN_FIELD(object);
}

template <Struct<RingBuffer> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(address);
    CAIRN_FIELD(length);
}

template <Struct<IoUring> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_WITHIN(entries, 1, 1 << 15);
    CAIRN_FIELD_WITHIN(completions, 1, 1 << 16);
    CAIRN_FIELD(offsets);
    CAIRN_FIELD(taken);
    CAIRN_FIELD(posted);
    CAIRN_FIELD(ring);
    CAIRN_FIELD(requests);
    CAIRN_FIELD_WITHIN(file_slots, 0, 1 << 20);
    CAIRN_FIELD(files);
    CAIRN_FIELD(buffers);
    CAIRN_FIELD(holder);
}

}  // namespace cairn::schema
