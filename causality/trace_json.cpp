#include "causality/trace_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "causality/json_fields.h"
#include "common/json_text.h"

namespace cairn::causality {
namespace {

using nlohmann::json;

std::unexpected<Error> wrong(std::string text) {
    return std::unexpected(Error{std::move(text), 0, ExitCode::damaged});
}

// Takes the members of a line one after the other; what is left over in the end has a wrong name.
class Members {
  public:
    explicit Members(std::vector<JsonField>& fields) : fields_(fields) {}

    template <class T>
    void number(const char* key, T& value, std::int64_t least, std::uint64_t most) {
        const JsonField* found = member(key);
        if (found == nullptr) return;
        if (found->what == JsonField::What::whole) {
            if (found->whole > most) return complain(key, "is too large");
            value = static_cast<T>(found->whole);
        } else if (found->what == JsonField::What::negative) {
            if (found->negative < least) return complain(key, "is too small");
            value = static_cast<T>(found->negative);
        } else {
            complain(key, "is not a whole number");
        }
    }
    void flag(const char* key, std::uint8_t& flags, std::uint8_t bit) {
        const JsonField* found = member(key);
        if (found == nullptr) return;
        if (found->what != JsonField::What::yes && found->what != JsonField::What::no)
            return complain(key, "is neither true nor false");
        if (found->what == JsonField::What::yes) flags |= bit;
    }
    void text(const char* key, std::string& value) {
        if (const std::string_view found = view(key); !found.empty()) value = found;
    }
    // Good as long as the line is.
    std::string_view view(const char* key) {
        const JsonField* found = member(key);
        if (found == nullptr) return {};
        if (found->what == JsonField::What::text) return found->text;
        complain(key, "is no string");
        return {};
    }
    const JsonField* member(const char* key) {
        const JsonField* found = find_field(fields_, key);
        if (found != nullptr) found->taken = true;
        return found;
    }
    [[nodiscard]] bool has(const char* key) const { return find_field(fields_, key) != nullptr; }
    void complain(std::string_view key, std::string_view what) {
        if (problem_.empty()) problem_ = fmt::format("\"{}\" {}", key, what);
    }
    // What is wrong, if anything is.
    [[nodiscard]] std::string problem() const {
        if (!problem_.empty()) return problem_;
        // By its name only: what it holds may be nested as deep as somebody likes.
        for (const JsonField& each : fields_)
            if (!each.taken)
                return fmt::format("it has a member that doesn't belong there: \"{}\"", each.key);
        return {};
    }

  private:
    std::vector<JsonField>& fields_;
    std::string problem_;
};

constexpr std::uint64_t most32 = 0xffffffffU;
constexpr std::uint64_t most_id = most32 - 1;

// "file:line", or "function@file:line".
bool parse_place(std::string_view text, Place& place) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon + 1 == text.size() || text.size() - colon > 10) return false;
    std::uint32_t line = 0;
    for (const char letter : text.substr(colon + 1)) {
        if (letter < '0' || letter > '9') return false;
        line = line * 10 + static_cast<std::uint32_t>(letter - '0');
    }
    const std::size_t at = text.find('@');
    if (at != std::string::npos && at < colon) place.function = text.substr(0, at);
    const std::size_t begin = at != std::string::npos && at < colon ? at + 1 : 0;
    place.file = text.substr(begin, colon - begin);
    place.line = line;
    return true;
}

const char* peer_name(Kind kind) {
    return kind == Kind::send ? "to" : kind == Kind::collective ? "root" : "from";
}

void parse_event(Members& members, TraceLine& line, const char* whose = "p") {
    Event& event = line.event;
    members.number(whose, line.process, 0, most_processes - 1);
    const std::string_view kind = members.view("e"), shape = members.view("shape");
    bool known = false;
    for (unsigned i = 0; i < kinds; ++i)
        if (kind == name(static_cast<Kind>(i))) {
            event.kind = static_cast<Kind>(i);
            known = true;
        }
    if (!known) members.complain("e", "is no kind of event");
    known = shape.empty();
    for (unsigned i = 1; i < shapes; ++i)
        if (shape == name(static_cast<Shape>(i))) {
            event.shape = static_cast<Shape>(i);
            known = true;
        }
    if (!known) members.complain("shape", "is none of all, from_root, to_root");
    const char* peer = peer_name(event.kind);
    members.number(peer, event.peer, 0, most_processes - 1);
    members.number("communicator", event.communicator, 0, most_id);
    members.number("tag", event.tag, INT32_MIN, INT32_MAX);
    members.number("request", event.request, 0, most32);
    members.number("message", event.message, 0, UINT64_MAX);
    members.number("time", event.time, INT64_MIN, INT64_MAX);
    members.number("took", event.took, 0, most_took);
    members.flag("nondeterministic", event.flags, Flag::nondeterministic);
    members.flag("joined", event.flags, Flag::joined);
    members.flag("forced", event.flags, Flag::forced);
    members.flag("cancelled", event.flags, Flag::cancelled);
    members.flag("for_collective", event.flags, Flag::for_collective);
    members.flag("any_source", event.flags, Flag::any_source);
    members.flag("any_tag", event.flags, Flag::any_tag);
    members.flag("asks", event.flags, Flag::asks);
    members.number("bytes", event.bytes, 0, unknown_bytes);
    members.text("type", line.type);
    const std::string_view at = members.view("at");
    members.text("call", line.place.call);
    if (!at.empty() && !parse_place(at, line.place))
        members.complain("at", "is not FILE:LINE or FUNCTION@FILE:LINE");
}

void parse_standing(Members& members, TraceLine& line) {
    parse_event(members, line, "stands");
    std::uint8_t any = 0;
    members.flag("any", any, 1);
    line.standing.any = any != 0;
    const JsonField* list = members.member("requests");
    if (list == nullptr) return;
    if (list->what != JsonField::What::list) return members.complain("requests", "is no list");
    for (const json& each : *list->list) {
        if (!each.is_number_unsigned() || each.get<std::uint64_t>() > most32)
            return members.complain("requests", "are not numbers of requests");
        line.standing.requests.push_back(each.get<std::uint32_t>());
    }
}

void parse_leak(Members& members, TraceLine& line) {
    members.number("leak", line.process, 0, most_processes - 1);
    const std::string_view what = members.view("what");
    bool known = false;
    for (unsigned i = 0; i < leaked_kinds; ++i)
        if (what == name(static_cast<Leaked>(i))) {
            line.leak.what = static_cast<Leaked>(i);
            known = true;
        }
    if (!known) members.complain("what", "is nothing that is freed");
    members.number("count", line.leak.count, 1, UINT64_MAX);
    members.text("call", line.place.call);
    const std::string_view at = members.view("at");
    if (!at.empty() && !parse_place(at, line.place))
        members.complain("at", "is not FILE:LINE or FUNCTION@FILE:LINE");
    line.leak.process = line.process;
}

void parse_communicator(Members& members, TraceLine& line) {
    members.number("communicator", line.communicator.id, 1, most_id);
    if (line.communicator.id == 0) members.complain("communicator", "is 0, which is everybody");
    const JsonField* list = members.member("members");
    if (list == nullptr || list->what != JsonField::What::list)
        return members.complain("members", "is no list");
    for (const json& each : *list->list) {
        if (!each.is_number_unsigned() || each.get<std::uint64_t>() >= most_processes)
            return members.complain("members", "are not processes");
        line.communicator.members.push_back(each.get<Process>());
    }
    auto& sorted = line.communicator.members;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
        members.complain("members", "names a process twice");
}

}  // namespace

Result<TraceLine> parse_trace_line(std::string_view text) {
    JsonFields fields;
    if (!fields.read(text)) return wrong("this is no JSON object");
    Members members(fields.all());
    TraceLine line;
    if (members.has("cairn-trace")) {
        line.what = TraceLine::What::header;
        std::uint32_t version = 0;
        members.number("cairn-trace", version, 0, most32);
        if (version != 1)
            return wrong(fmt::format("a trace of version {}; this cairn reads version 1", version));
        members.number("processes", line.processes, 1, most_processes);
        if (line.processes == 0) members.complain("processes", "says how many there are, from 1");
    } else if (members.has("members")) {
        line.what = TraceLine::What::communicator;
        parse_communicator(members, line);
    } else if (members.has("killed")) {
        line.what = TraceLine::What::killed;
        members.number("killed", line.process, 0, most_processes - 1);
    } else if (members.has("stands")) {
        line.what = TraceLine::What::standing;
        parse_standing(members, line);
    } else if (members.has("leak")) {
        line.what = TraceLine::What::leak;
        parse_leak(members, line);
    } else {
        line.what = TraceLine::What::event;
        if (!members.has("p")) members.complain("p", "says whose event it is, and is missing");
        parse_event(members, line);
    }
    if (std::string problem = members.problem(); !problem.empty()) return wrong(std::move(problem));
    return line;
}

namespace {

void put_place(nlohmann::ordered_json& out, const Place& place) {
    if (!place.call.empty()) out["call"] = place.call;
    if (place.file.empty() && place.function.empty()) return;
    out["at"] = place.function.empty() ? fmt::format("{}:{}", place.file, place.line)
                                       : fmt::format("{}@{}:{}", place.function, place.file, place.line);
}

}  // namespace

std::string trace_line(const TraceLine& line) {
    // ordered: as a person would write it
    nlohmann::ordered_json out;
    switch (line.what) {
        case TraceLine::What::header:
            out = {{"cairn-trace", 1}, {"processes", line.processes}};
            break;
        case TraceLine::What::communicator:
            out = {{"communicator", line.communicator.id}, {"members", line.communicator.members}};
            break;
        case TraceLine::What::killed:
            out = {{"killed", line.process}};
            break;
        case TraceLine::What::leak:
            out = {{"leak", line.process}, {"what", name(line.leak.what)}};
            if (line.leak.count != 1) out["count"] = line.leak.count;
            put_place(out, line.place);
            break;
        case TraceLine::What::standing:
        case TraceLine::What::event: {
            const bool stands = line.what == TraceLine::What::standing;
            const Event& event = stands ? line.standing.event : line.event;
            out = {{stands ? "stands" : "p", line.process}, {"e", name(event.kind)}};
            if (event.shape != Shape::alone) out["shape"] = name(event.shape);
            const char* peer = peer_name(event.kind);
            if (event.peer != none) out[peer] = event.peer;
            if (event.communicator != 0) out["communicator"] = event.communicator;
            if (event.tag != 0) out["tag"] = event.tag;
            if (event.message != 0) out["message"] = event.message;
            if (event.request != 0) out["request"] = event.request;
            if (event.time != 0) out["time"] = event.time;
            if (event.took != 0) out["took"] = event.took;
            if (event.has(Flag::nondeterministic)) out["nondeterministic"] = true;
            if (event.has(Flag::joined)) out["joined"] = true;
            if (event.has(Flag::forced)) out["forced"] = true;
            if (event.has(Flag::cancelled)) out["cancelled"] = true;
            if (event.has(Flag::for_collective)) out["for_collective"] = true;
            if (event.has(Flag::any_source)) out["any_source"] = true;
            if (event.has(Flag::any_tag)) out["any_tag"] = true;
            if (event.has(Flag::asks)) out["asks"] = true;
            if (event.bytes != unknown_bytes) out["bytes"] = event.bytes;
            if (!line.type.empty()) out["type"] = line.type;
            if (stands && line.standing.any) out["any"] = true;
            if (stands && !line.standing.requests.empty()) out["requests"] = line.standing.requests;
            put_place(out, line.place);
        }
    }
    // Names of files may be anything but UTF-8.
    return json_text(out);
}

Result<> TraceLines::add(std::string_view text) {
    ++number_;
    const auto refuse = [&](std::string_view why) {
        return fail_code(ExitCode::damaged, "{}: line {}: {}", name_, number_, why);
    };
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return {};
    auto line = parse_trace_line(text);
    if (!line) return refuse(line.error().what);
    if ((line->what == TraceLine::What::header) != (trace_ == nullptr))
        return refuse(trace_ == nullptr ? "the first line is {\"cairn-trace\": 1, \"processes\": N}"
                                        : "a second header");
    switch (line->what) {
        case TraceLine::What::header:
            trace_ = std::make_unique<MemoryTrace>(line->processes);
            break;
        case TraceLine::What::communicator:
            if (!line->communicator.members.empty() &&
                line->communicator.members.back() >= trace_->processes())
                return refuse("a member is no process of the trace");
            for (const Communicator& known : trace_->communicators())
                if (known.id == line->communicator.id && known.members != line->communicator.members)
                    return refuse("the communicator has other members than before");
            trace_->communicator(std::move(line->communicator));
            break;
        case TraceLine::What::killed:
        case TraceLine::What::standing:
        case TraceLine::What::leak:
        case TraceLine::What::event:
            if (line->process >= trace_->processes()) return refuse("the trace has no such process");
            if (line->what == TraceLine::What::killed) {
                trace_->set_ended(line->process, false);
                break;
            }
            line->event.place = place(line->place);
            line->event.type = type(line->type);
            if (line->what == TraceLine::What::standing) {
                line->standing.event = line->event;
                trace_->set_standing(line->process, std::move(line->standing));
                break;
            }
            if (line->what == TraceLine::What::leak) {
                line->leak.place = line->event.place;
                trace_->add_leak(line->leak);
                break;
            }
            trace_->append(line->process, line->event);
    }
    return {};
}

std::uint32_t TraceLines::place(const Place& place) {
    const auto [found, is_new] = places_.try_emplace(
        fmt::format("{}\n{}\n{}\n{}", place.call, place.function, place.file, place.line), 0);
    if (is_new) found->second = trace_->place(place);
    return found->second;
}

std::uint32_t TraceLines::type(const std::string& name) {
    if (name.empty()) return 0;
    const auto [found, is_new] = types_.try_emplace(name, 0);
    if (is_new) found->second = trace_->type(name);
    return found->second;
}

Result<std::unique_ptr<MemoryTrace>> TraceLines::finish() {
    if (trace_ == nullptr) return fail_code(ExitCode::damaged, "{}: an empty trace", name_);
    return std::move(trace_);
}

Result<std::unique_ptr<MemoryTrace>> parse_trace_lines(std::string_view text, std::string_view name) {
    TraceLines lines{std::string(name)};
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        CHECK_OK(lines.add(text.substr(0, end)));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines.finish();
}

}  // namespace cairn::causality
