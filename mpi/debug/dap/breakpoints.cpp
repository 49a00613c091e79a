// Which calls a breakpoint of the editor's means. A rank stands behind calls of the MPI only, so that a
// breakpoint at another line moves down to the next one with such a call.
#include <algorithm>

#include "mpi/debug/dap/session.h"

namespace cairn::mpi::debug::dap {
namespace {

std::string name_of_file(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

// The debugging information names a file as the compiler was given it, which may be relative.
bool is_same_file(const std::string& path, const std::string& known) {
    if (known.empty() || name_of_file(path) != name_of_file(known)) return false;
    if (path == known || !path.starts_with('/') || known.find("..") != std::string::npos) return true;
    return !known.starts_with('/') && path.ends_with("/" + known);
}

nlohmann::json placed(bool verified, std::uint32_t line, const std::string& why = {}) {
    nlohmann::json told = {{"verified", verified}};
    if (line > 0) told["line"] = line;
    if (!why.empty()) told["message"] = why;
    return told;
}

}  // namespace

Session::Line Session::line_with_call(const std::string& path, std::uint32_t from) const {
    Line best;
    const auto& places = world().moves().computation().places();
    for (std::uint32_t id = 0; id < places.size(); ++id) {
        const auto& place = places[id];
        if (place.line < from || !is_same_file(path, place.file)) continue;
        if (best.line != 0 && place.line > best.line) continue;
        if (place.line < best.line || best.line == 0) best = {place.line, {}};
        best.places.insert(id);
    }
    return best;
}

Result<Session::json> Session::set_breakpoints(const json& arguments) {
    const std::string path = arguments.at("source").value("path", arguments.at("source").value("name", ""));
    json told = json::array();
    auto& chosen = lines_[path];
    chosen.clear();
    for (const auto& wish : arguments.value("breakpoints", json::array())) {
        const Line found = line_with_call(path, wish.at("line").get<std::uint32_t>());
        chosen.insert(found.places.begin(), found.places.end());
        told.push_back(
            found.line != 0
                ? placed(true, found.line)
                : placed(false, 0, "no rank calls the MPI at this line of this file, or below it"));
    }
    return json{{"breakpoints", told}};
}

Result<Session::json> Session::set_function_breakpoints(const json& arguments) {
    json told = json::array();
    functions_.clear();
    for (const auto& wish : arguments.value("breakpoints", json::array())) {
        const std::string name = wish.at("name");
        std::string why = "no rank has done anything";
        std::set<std::uint32_t> places;
        for (Process rank = 0; rank < world().ranks(); ++rank) {
            const auto spot = tool::read_spot(name, world().moves().computation(), rank);
            if (spot && spot->event == 0)
                places.insert(spot->places.begin(), spot->places.end());
            else if (rank == 0 && !spot)
                why = spot.error().what;
        }
        functions_.insert(places.begin(), places.end());
        told.push_back(placed(!places.empty(), 0, places.empty() ? why : ""));
    }
    return json{{"breakpoints", told}};
}

std::set<std::uint32_t> Session::break_places() const {
    std::set<std::uint32_t> places = functions_;
    for (const auto& [path, some] : lines_) places.insert(some.begin(), some.end());
    return places;
}

// A value in the focus; on the way back it stops where it changed last.
Result<Session::json> Session::data_breakpoint_info(const json& arguments) {
    if (job_) return json{{"dataId", nullptr}, {"description", "a job that runs together can't be watched"}};
    std::string expression = arguments.at("name");
    const int reference = arguments.value("variablesReference", 0);
    if (reference > 0) {
        const auto parts = TRY(variables({{"variablesReference", reference}}));
        for (const auto& each : parts["variables"])
            if (each["name"] == expression) expression = each.value("evaluateName", "");
    }
    if (expression.empty())
        return json{{"dataId", nullptr}, {"description", "this value has no name that can be watched"}};
    return json{{"dataId", expression},
                {"description", fmt::format("{}, on the way back", expression)},
                {"accessTypes", {"write"}}};
}

Result<Session::json> Session::set_data_breakpoints(const json& arguments) {
    json told = json::array();
    watched_.clear();
    for (const auto& wish : arguments.value("breakpoints", json::array())) {
        watched_.push_back(wish.at("dataId"));
        told.push_back(placed(true, 0));
    }
    return json{{"breakpoints", told}};
}

// Where the rank in focus passes this line: before where it stands, behind it, and the first and last time.
Result<Session::json> Session::goto_targets(const json& arguments) {
    const auto& source = arguments.at("source");
    const Line found = line_with_call(source.value("path", source.value("name", "")), arguments.at("line"));
    const Moves& moves = world().moves();
    const State now = here();
    json told = json::array();
    const auto offer = [&](const char* what, const std::optional<State>& to) {
        if (!to || std::ranges::find(targets_, *to) != targets_.end()) return;
        targets_.push_back(*to);
        told.push_back({{"id", targets_.size() - 1},
                        {"label", fmt::format("{}: event {}", what, moves.call_at(*to))},
                        {"line", found.line}});
    };
    targets_.clear();
    if (found.line == 0) return json{{"targets", told}};
    offer("next pass", moves.next(now, found.places));
    offer("pass before", moves.previous(now, found.places));
    offer("first pass", moves.next({now.rank, 0}, found.places));
    offer("last pass", moves.previous({now.rank, moves.computation().size(now.rank)}, found.places));
    return json{{"targets", told}};
}

}  // namespace cairn::mpi::debug::dap
