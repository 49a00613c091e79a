// What the editor shows: ranks, stacks, variables, and what its console answers.
#include <algorithm>

#include "mpi/debug/dap/session.h"

namespace cairn::mpi::debug::dap {

Result<Session::json> Session::threads(const json&) {
    json told = json::array();
    for (Process rank = 0; rank < world().ranks(); ++rank)
        told.push_back({{"id", rank + 1}, {"name", world().text(rank)}});
    return json{{"threads", told}};
}

Result<Session::json> Session::inspect(Process rank, const json& request) {
    auto found = inspectors_.find(rank);
    if (found == inspectors_.end()) {
        auto looked = TRY(world().look_into(rank));
        auto inspector = TRY(Inspector::start(std::move(looked)));
        // Frames that the editor knows have their numbers by this.
        CHECK_OK(error_of(inspector.ask({{"do", "frames"}})));
        found = inspectors_.emplace(rank, std::move(inspector)).first;
    }
    auto told = found->second.ask(request);
    // One that doesn't answer, or later than it was waited for, is of no more use.
    if (!told && told.error().code != ExitCode::refused) inspectors_.erase(found);
    return told;
}

Result<Session::json> Session::stack_trace(const json& arguments) {
    const Process rank = TRY(rank_in(arguments));
    const auto frames = TRY(inspect(rank, {{"do", "frames"}}));
    const auto first = arguments.value("startFrame", std::size_t{0});
    const auto most = arguments.value("levels", std::size_t{0});
    json told = json::array();
    for (std::size_t i = first; i < frames.size() && (most == 0 || i < first + most); ++i) {
        frames_.emplace_back(rank, static_cast<int>(i));
        json frame = {
            {"id", frames_.size()}, {"name", frames[i]["name"]}, {"line", frames[i]["line"]}, {"column", 0}};
        const std::string path = frames[i]["path"];
        if (!path.empty())
            frame["source"] = {{"name", path.substr(path.rfind('/') + 1)}, {"path", path}};
        else
            frame["presentationHint"] = "subtle";
        told.push_back(std::move(frame));
    }
    return json{{"stackFrames", told}, {"totalFrames", frames.size()}};
}

Result<Session::json> Session::scopes(const json& arguments) {
    const auto id = arguments.at("frameId").get<std::size_t>();
    if (id < 1 || id > frames_.size()) return fail_code(ExitCode::usage, "there is no frame {}", id);
    const auto frame = frames_[id - 1];
    json told = json::array();
    const auto add = [&](const char* name, Reference::Kind kind, bool expensive, const char* hint) {
        references_.push_back({kind, frame.first, frame.second});
        told.push_back(
            {{"name", name}, {"variablesReference", references_.size()}, {"expensive", expensive}});
        if (*hint != 0) told.back()["presentationHint"] = hint;
    };
    add("Locals", Reference::Kind::locals, false, "locals");
    add("Globals of this file", Reference::Kind::globals, true, "globals");
    add("MPI", Reference::Kind::mpi, false, "");
    return json{{"scopes", told}};
}

// A variable as the protocol has it.
Session::json Session::shown(Process rank, const json& told) {
    json variable = {{"name", told["name"]}, {"value", told["value"]}, {"variablesReference", 0}};
    if (const auto type = told.value("type", ""); !type.empty()) variable["type"] = type;
    if (const auto expression = told.value("expression", ""); !expression.empty())
        variable["evaluateName"] = expression;
    if (const int reference = told.value("reference", 0); reference > 0) {
        references_.push_back({Reference::Kind::parts, rank, reference});
        variable["variablesReference"] = references_.size();
        if (told.contains("elements")) variable["indexedVariables"] = told["elements"];
    }
    return variable;
}

// Where it stands in its own history, and what came last.
Session::json Session::of_the_mpi(Process rank) const {
    const Moves& moves = world().moves();
    const State state = world().state(rank);
    json told = json::array();
    const auto add = [&](const char* name, const std::string& value) {
        told.push_back({{"name", name}, {"value", value}, {"variablesReference", 0}});
    };
    add("event", fmt::format("{} of {}", moves.call_at(state), moves.calls(rank)));
    if (state.position > 0)
        add("last call", moves.text(moves.computation().first(rank) + state.position - 1));
    if (const auto cause = moves.cause(state)) {
        add("last received", moves.text(cause->receipt));
        if (cause->sent != causality::none) add("sent by", moves.text(cause->sent));
    }
    for (const Index sent : moves.in_transit(world().cut()))
        if (moves.at(sent).rank == rank) add("sent, not received yet", moves.text(sent));
    return told;
}

Result<Session::json> Session::variables(const json& arguments) {
    const auto id = arguments.at("variablesReference").get<std::size_t>();
    if (id < 1 || id > references_.size())
        return fail_code(ExitCode::usage, "there is nothing with the reference {}", id);
    const Reference reference = references_[id - 1];
    if (reference.kind == Reference::Kind::gone)
        return fail_code(ExitCode::refused, "these values are read anew: ask for their variable again");
    if (reference.kind == Reference::Kind::mpi) return json{{"variables", of_the_mpi(reference.rank)}};
    json request;
    if (reference.kind == Reference::Kind::parts) {
        request = {{"do", "children"},
                   {"of", reference.number},
                   {"start", arguments.value("start", 0)},
                   {"count", arguments.value("count", 0)}};
    } else {
        const bool locals = reference.kind == Reference::Kind::locals;
        request = {{"do", locals ? "locals" : "globals"}, {"frame", reference.number}};
    }
    json told = json::array();
    for (const auto& each : TRY(inspect(reference.rank, request)))
        told.push_back(shown(reference.rank, each));
    return json{{"variables", told}};
}

// In the editor's console what begins with a command of the debugger's is one; everything else, and what is
// hovered over or watched, is an expression.
Result<Session::json> Session::evaluate(const json& arguments) {
    const std::string expression = arguments.at("expression");
    const std::string context = arguments.value("context", "");
    if (context == "repl" && Commands::is_command(expression)) {
        const auto answer = TRY(command({{"line", expression}}));
        return json{{"result", answer["text"]}, {"variablesReference", 0}};
    }
    Process rank = world().focus();
    int frame = 0;
    if (const auto id = arguments.value("frameId", std::size_t{0}); id > 0 && id <= frames_.size())
        std::tie(rank, frame) = frames_[id - 1];
    const auto told = TRY(inspect(rank, {{"do", "evaluate"}, {"frame", frame}, {"expression", expression}}));
    json variable = shown(rank, told);
    variable["result"] = variable["value"];
    variable.erase("value");
    variable.erase("name");
    return variable;
}

// A line for the console of `cairn mpi debug`.
Result<Session::json> Session::command(const json& arguments) {
    const std::string line = arguments.at("line");
    if (Commands::is_command(line) && line.starts_with("gdb"))
        return fail_code(ExitCode::refused, "gdb needs a terminal: cairn mpi debug without --dap");
    const State before = here();
    const Cut cut = world().cut();
    release_ranks();
    auto answer = TRY(commands_->execute(line));
    if (commands_->over()) {
        over_ = true;
        then_ = [this] { channel_.event("terminated"); };
    } else if (here() != before || world().cut() != cut) {
        then_ = [this] { stopped("goto"); };
    }
    if (answer.text.ends_with('\n')) answer.text.pop_back();
    return json{{"text", answer.text}, {"answer", answer.json}};
}

Result<Session::json> Session::completions(const json& arguments) {
    const std::string text = arguments.value("text", "");
    json told = json::array();
    for (const std::string& name : Commands::names())
        if (name.starts_with(text)) told.push_back({{"label", name}});
    return json{{"targets", told}};
}

}  // namespace cairn::mpi::debug::dap
