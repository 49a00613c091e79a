// What a client asks a coordinator: docs/protocol.md, "Verbs".
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/connections.h"
#include "common/wire/field.h"

namespace cairn::wire {

// Seconds that an interval or a time limit may have at most.
inline constexpr std::int64_t longest_s = 100'000'000;

struct Hello {
    static constexpr Name name{"verb", "hello"};
    std::string ckptdir{}, external{}, landlock{}, coordinator{}, files{}, with{},
        compress{};  // "": not given
    std::optional<double> interval{};
    std::optional<std::uint32_t> keep{};
    bool self_contained = false, track_mem = false;
};
template <Struct<Hello> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(ckptdir);
    CAIRN_FIELD_OR(external);
    CAIRN_FIELD_OR(landlock);
    CAIRN_FIELD_OR(coordinator);
    CAIRN_FIELD_OR(files);
    CAIRN_FIELD_OR(with);
    CAIRN_FIELD_OR(compress);
    CAIRN_FIELD_WITHIN(interval, 0, longest_s);
    CAIRN_FIELD_WITHIN(keep, 0, 1'000'000);
    CAIRN_FIELD_OR(self_contained);
    CAIRN_FIELD_OR(track_mem);
}

struct AskRegion {
    static constexpr Name name{"verb", "region"};
    std::uint32_t user = 0;
};
template <Struct<AskRegion> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_WITHIN(user, 0, 0xfffffffe);
}

struct AskCheckpoint {
    static constexpr Name name{"verb", "checkpoint"};
    bool kill = false, self_contained = false, track_mem = false, without_strangers = false;
    std::string ckptdir{}, external{}, landlock{}, files{}, compress{};  // "": the session's
    std::string with{};                                                  // beside the session's
    std::optional<double> timeout{};
};
template <Struct<AskCheckpoint> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(kill);
    CAIRN_FIELD_OR(self_contained);
    CAIRN_FIELD_OR(track_mem);
    CAIRN_FIELD_OR(without_strangers);
    CAIRN_FIELD_OR(ckptdir);
    CAIRN_FIELD_OR(external);
    CAIRN_FIELD_OR(landlock);
    CAIRN_FIELD_OR(files);
    CAIRN_FIELD_OR(with);
    CAIRN_FIELD_OR(compress);
    CAIRN_FIELD(timeout);
}

struct SetInterval {
    static constexpr Name name{"verb", "interval"};
    double seconds = 0;
};
template <Struct<SetInterval> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_WITHIN(seconds, 0, longest_s);
}

// A part of a computation, as its manifest tells of it.
struct PartOf {
    std::int32_t number = 0;
    std::string host{}, terminal{};
    std::int64_t processes = 0;
};
template <Struct<PartOf> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(number);
    CAIRN_FIELD_OR(host);
    CAIRN_FIELD_OR(terminal);
    CAIRN_FIELD_OR(processes);
}

struct JoiningMember {
    std::string uid{};
    ProgramId pid{};
};
template <Struct<JoiningMember> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(uid);
    CAIRN_FIELD_OR(pid);
}

struct RestartJoin {
    static constexpr Name name{"verb", "restart-join"};
    std::string cid{}, directory{};
    std::int64_t np = 0, generation = 0;  // generation 0: not told
    Json part{};                          // a number, or an array of numbers
    std::vector<PartOf> parts{};
    std::vector<JoiningMember> members{};
    std::string files{},
        with{};  // of a checkpoint that has saved files: saved on, if nobody has said otherwise
    bool more = false;
};
template <Struct<RestartJoin> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(cid);
    CAIRN_FIELD_OR(directory);
    CAIRN_FIELD(np);
    CAIRN_FIELD_OR(generation);
    CAIRN_FIELD_OR(part);
    CAIRN_FIELD_OR(parts);
    CAIRN_FIELD_OR(members);
    CAIRN_FIELD_OR(files);
    CAIRN_FIELD_OR(with);
    CAIRN_FIELD_OR(more);
}

struct RestartLinks {
    static constexpr Name name{"verb", "restart-links"};
    std::vector<PartEnd> ends{};
    bool more = false;
};
template <Struct<RestartLinks> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(ends);
    CAIRN_FIELD_OR(more);
}

// A process that a restart has rebuilt. Between coordinators only its uid is told: the slot is the other
// host's.
struct ReadyMember {
    std::string uid{};
    ProgramId pid{};
    KernelId real{};
    std::uint32_t slot = std::numeric_limits<std::uint32_t>::max();
    std::optional<std::uint32_t> user{};  // whose region the slot is in; none: the session's owner's
    ProgramAddress region_at{}, door{};
};
template <Struct<ReadyMember> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(uid);
    CAIRN_FIELD_OR(pid);
    CAIRN_FIELD_OR(real);
    CAIRN_FIELD_OR(slot);
    CAIRN_FIELD(user);
    CAIRN_FIELD_OR(region_at);
    CAIRN_FIELD_OR(door);
}

struct RestartReady {
    static constexpr Name name{"verb", "restart-ready"};
    std::vector<ReadyMember> members{};
    bool more = false;
};
template <Struct<RestartReady> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(members);
    CAIRN_FIELD_OR(more);
}

struct RestartDone {
    static constexpr Name name{"verb", "restart-done"};
};
template <Struct<RestartDone> S, class F>
void fields(S&, F&&) {}

}  // namespace cairn::wire
