// What a coordinator asks of a capture, and what that answers: docs/capture-protocol.md.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/field.h"

namespace cairn::wire {

struct RegionAt {
    std::uint32_t user = 0;
    std::string path{};
};
template <Struct<RegionAt> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(user);
    CAIRN_FIELD(path);
}

struct CapturedMember {
    KernelId pid{};
    // Of one who is in another user's region.
    std::optional<std::uint64_t> born_ns{};
    std::optional<ProgramAddress> door{};
};
template <Struct<CapturedMember> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(pid);
    CAIRN_FIELD(born_ns);
    CAIRN_FIELD(door);
}

// The userfaultfd by which a process's memory has marks, and what they say: pages that have one are what they
// are in the image with this id (docs/decisions/0044-write-protection.md).
struct MarksOf {
    KernelId pid{};
    std::uint64_t image = 0;
};
template <Struct<MarksOf> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(pid);
    CAIRN_FIELD(image);
}

struct CaptureRequest {
    static constexpr Name name{"", ""};  // the first message, and the only one of its kind
    std::string region{}, directory{}, cid{}, session{}, host{},
        external = "reset", landlock = "refuse", files{}, with{}, compress{};  // common/compression.h
    std::vector<RegionAt> regions{};
    std::vector<CapturedMember> members{};
    std::vector<MarksOf> marks{};  // whose descriptors come with the message, in this order
    std::int32_t generation = 0;
    std::int64_t deadline_ms = 30'000;
    std::uint64_t capture = 0;
    bool self_contained = false, track_mem = false, without_strangers = false, hold = false, joint = false;
};
template <Struct<CaptureRequest> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(region);
    CAIRN_FIELD_OR(regions);
    CAIRN_FIELD(directory);
    CAIRN_FIELD(cid);
    CAIRN_FIELD(generation);
    CAIRN_FIELD_OR(session);
    CAIRN_FIELD_OR(deadline_ms);
    CAIRN_FIELD_OR(capture);
    CAIRN_FIELD_OR(self_contained);
    CAIRN_FIELD_OR(track_mem);
    CAIRN_FIELD_OR(marks);
    CAIRN_FIELD_OR(without_strangers);
    CAIRN_FIELD_OR(external);
    CAIRN_FIELD_OR(landlock);
    CAIRN_FIELD_OR(files);
    CAIRN_FIELD_OR(with);
    CAIRN_FIELD_OR(compress);
    CAIRN_FIELD_OR(hold);
    CAIRN_FIELD_OR(host);
    CAIRN_FIELD_OR(joint);
    CAIRN_FIELD_OR(members);
}

struct CaptureDone {
    static constexpr Name name{"event", "done"};
    std::int64_t pause_ns = 0;
    std::uint64_t bytes = 0;
    std::vector<std::string> notes{};
    std::vector<MarksOf> marks{};  // as in CaptureRequest
    Json manifest{};               // schema::Manifest
};
template <Struct<CaptureDone> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(pause_ns);
    CAIRN_FIELD_OR(bytes);
    CAIRN_FIELD_OR(notes);
    CAIRN_FIELD_OR(marks);
    CAIRN_FIELD(manifest);
}

// It waits for the other hosts, and says what they have to know.
struct Barrier {
    static constexpr Name name{"event", "barrier"};
    std::string barrier{};
    Json data = Json::object();
};
template <Struct<Barrier> S, class F>
void fields(S& s, F&& f) {
    f(std::string_view{"name"}, s.barrier);
    CAIRN_FIELD_OBJECT_OR(data);
}

// All have come as far: the answer.
struct PassedBarrier {
    static constexpr Name name{"", ""};
    std::string pass{};
    Json data = Json::object();
};
template <Struct<PassedBarrier> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(pass);
    CAIRN_FIELD_OBJECT_OR(data);
}

}  // namespace cairn::wire
