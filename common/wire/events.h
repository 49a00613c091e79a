// What a coordinator answers and tells: docs/protocol.md. A capture tells its coordinator phases, progress
// and failures in the same words (docs/capture-protocol.md), and a host's coordinator those of its part to
// the root.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/field.h"
#include "common/wire/requests.h"

namespace cairn::wire {

struct Failed {
    static constexpr Name name{"event", "failed"};
    std::int64_t code = 1;
    std::string reason = "it gave no reason";
    bool passing = false;                // another try may go well
    std::optional<std::string> phase{};  // of a capture: the one that it was in
};
template <Struct<Failed> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(code);
    CAIRN_FIELD_OR(reason);
    CAIRN_FIELD_OR(passing);
    CAIRN_FIELD(phase);
}

struct Note {
    static constexpr Name name{"event", "note"};
    std::string text{};
};
template <Struct<Note> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(text);
}

// The programs have gone on, because of what has to pass first; the passes from stop on are begun again.
inline constexpr const char* phase_again = "again";

struct Phase {
    static constexpr Name name{"event", "phase"};
    std::string phase{};
    std::vector<std::string> waiting{};
    std::optional<std::uint32_t> generation{};
    std::optional<std::string> directory{};
};
template <Struct<Phase> S, class F>
void fields(S& s, F&& f) {
    f(std::string_view{"name"}, s.phase);
    CAIRN_FIELD_OR(waiting);
    CAIRN_FIELD(generation);
    CAIRN_FIELD(directory);
}

struct Progress {
    static constexpr Name name{"event", "progress"};
    std::uint64_t bytes = 0, total = 0, rate = 0;  // rate: bytes in a second
    std::string last{};
};
template <Struct<Progress> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(bytes);
    CAIRN_FIELD_OR(total);
    CAIRN_FIELD_OR(rate);
    CAIRN_FIELD_OR(last);
}

// Of a checkpoint.
struct CheckpointDone {
    static constexpr Name name{"event", "done"};
    int code = 0;
    std::string directory{}, cid{};
    std::uint32_t generation = 0;
    std::int64_t processes = 0;
    std::optional<std::size_t> hosts{};  // if there are several
    std::uint64_t bytes = 0;
    std::int64_t pause_ns = 0, total_ns = 0;
    bool killed = false;
    std::vector<std::string> notes{};
    // Those of `notes` that no checkpoint before has told; none: nobody has looked.
    std::optional<std::vector<std::string>> news{};
};
template <Struct<CheckpointDone> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(code);
    CAIRN_FIELD(directory);
    CAIRN_FIELD_OR(cid);
    CAIRN_FIELD_OR(generation);
    CAIRN_FIELD_OR(processes);
    CAIRN_FIELD(hosts);
    CAIRN_FIELD_OR(bytes);
    CAIRN_FIELD_OR(pause_ns);
    CAIRN_FIELD_OR(total_ns);
    CAIRN_FIELD_OR(killed);
    CAIRN_FIELD_OR(notes);
    CAIRN_FIELD(news);
}

// A checkpoint that is under way, in `status`.
struct UnderWay {
    std::string phase{}, directory{};
    std::uint64_t bytes = 0, total = 0;
    std::uint32_t generation = 0;
};
template <Struct<UnderWay> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(phase);
    CAIRN_FIELD_OR(bytes);
    CAIRN_FIELD_OR(total);
    CAIRN_FIELD_OR(generation);
    CAIRN_FIELD_OR(directory);
}

struct Killed {
    static constexpr Name name{"event", "done"};
    int code = 0;
    std::uint64_t killed = 0;
};
template <Struct<Killed> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(code);
    CAIRN_FIELD_OR(killed);
}

// A process of the session, in `list`.
struct Process {
    static constexpr Name name{"event", "process"};
    ProgramId pid{};
    KernelId real{}, parent{};
    std::string uid{}, comm{}, command{}, terminal{}, state{}, foreign{};
    bool restored = false;
    double started_s = 0;
    std::optional<std::string> host{};  // if there are several
};
template <Struct<Process> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(pid);
    CAIRN_FIELD_OR(real);
    CAIRN_FIELD_OR(parent);
    CAIRN_FIELD_OR(uid);
    f(std::string_view{"name"}, s.comm, MayMiss{});
    CAIRN_FIELD_OR(command);
    CAIRN_FIELD_OR(terminal);
    CAIRN_FIELD_OR(state);
    CAIRN_FIELD_OR(foreign);
    CAIRN_FIELD_OR(restored);
    CAIRN_FIELD_OR(started_s);
    CAIRN_FIELD(host);
}

// A restart waits for parts.
struct Waiting {
    static constexpr Name name{"event", "waiting"};
    std::int64_t have = 0, np = 0;
    std::vector<PartOf> missing{};
};
template <Struct<Waiting> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(have);
    CAIRN_FIELD_OR(np);
    CAIRN_FIELD_OR(missing);
}

// Where a part is restarted.
struct PartAt {
    std::int32_t number = 0;
    std::vector<std::string> addresses{};
};
template <Struct<PartAt> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(number);
    CAIRN_FIELD_OR(addresses);
}

struct Go {
    static constexpr Name name{"event", "go"};
    std::string cid{};
    std::int64_t np = 0;
    std::vector<PartAt> parts{};
};
template <Struct<Go> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(cid);
    CAIRN_FIELD(np);
    CAIRN_FIELD_OR(parts);
}

struct Links {
    static constexpr Name name{"event", "links"};
    std::vector<PartEnd> ends{};
    bool more = false;
};
template <Struct<Links> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(ends);
    CAIRN_FIELD_OR(more);
}

// All parts are complete: everybody goes on.
struct Release {
    static constexpr Name name{"event", "release"};
};
template <Struct<Release> S, class F>
void fields(S&, F&&) {}

struct HostStatus {
    std::string name{}, address{};
    std::size_t processes = 0;
    bool connected = false;
};
template <Struct<HostStatus> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(name);
    CAIRN_FIELD_OR(address);
    CAIRN_FIELD_OR(processes);
    CAIRN_FIELD_OR(connected);
}

struct Status {
    static constexpr Name name{"event", "done"};
    int code = 0;
    std::vector<HostStatus> hosts{};
    std::string host{}, session{};
    std::int64_t pid = 0, generation_of_coordinator = 0;
    std::string cid{};
    std::int64_t np = 0;
    std::string state{}, ckptdir{};
    double interval = 0;
    std::uint64_t intervals_missed = 0;
    std::string interval_trouble{};  // why the last one was not kept; "": it was
    std::uint32_t keep = 0;
    bool self_contained = false, track_mem = false;
    std::string external{}, landlock{}, files{}, with{}, compress{};
    std::uint64_t processes = 0, births = 0;
    std::optional<CheckpointDone> last{};
    std::optional<UnderWay> checkpoint{};
    std::optional<Waiting> restart{};
    double uptime_s = 0;
    std::vector<std::string> limits{};
    std::uint64_t overflow = 0, places = 0;
};
template <Struct<Status> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(code);
    CAIRN_FIELD_OR(hosts);
    CAIRN_FIELD_OR(host);
    CAIRN_FIELD_OR(session);
    CAIRN_FIELD_OR(pid);
    CAIRN_FIELD_OR(generation_of_coordinator);
    CAIRN_FIELD_OR(cid);
    CAIRN_FIELD_OR(np);
    CAIRN_FIELD_OR(state);
    CAIRN_FIELD_OR(ckptdir);
    CAIRN_FIELD_OR(interval);
    CAIRN_FIELD_OR(intervals_missed);
    CAIRN_FIELD_OR(interval_trouble);
    CAIRN_FIELD_OR(keep);
    CAIRN_FIELD_OR(self_contained);
    CAIRN_FIELD_OR(track_mem);
    CAIRN_FIELD_OR(external);
    CAIRN_FIELD_OR(landlock);
    CAIRN_FIELD_OR(files);
    CAIRN_FIELD_OR(with);
    CAIRN_FIELD_OR(compress);
    CAIRN_FIELD_OR(processes);
    CAIRN_FIELD_OR(births);
    CAIRN_FIELD(last);
    CAIRN_FIELD(checkpoint);
    CAIRN_FIELD(restart);
    CAIRN_FIELD_OR(uptime_s);
    CAIRN_FIELD_OR(limits);
    CAIRN_FIELD_OR(overflow);
    CAIRN_FIELD_OR(places);
}

}  // namespace cairn::wire
