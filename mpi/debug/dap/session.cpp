// The beginning and the end, and which request is whose.
#include "mpi/debug/dap/session.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

namespace cairn::mpi::debug::dap {

Session::Session(Channel& channel, tool::Options options)
    : channel_(channel),
      options_(std::move(options)),
      output_([this](int rank, bool error, const std::string& line) {
          // Of a whole job mpiexec doesn't say whose it is.
          const std::string whose = rank < 0 ? "job" : std::to_string(rank);
          channel_.print(error ? "stderr" : "stdout", fmt::format("[{}] {}\n", whose, line));
      }) {}

const std::map<std::string, Session::Known>& Session::known() {
    static const std::map<std::string, Known> all = {
        {"initialize", {&Session::initialize, false}},
        {"launch", {&Session::launch, false}},
        {"attach", {&Session::launch, false}},
        {"configurationDone", {&Session::configured, true}},
        {"disconnect", {&Session::end, false}},
        {"terminate", {&Session::end, false}},
        {"setBreakpoints", {&Session::set_breakpoints, true}},
        {"setFunctionBreakpoints", {&Session::set_function_breakpoints, true}},
        {"dataBreakpointInfo", {&Session::data_breakpoint_info, true}},
        {"setDataBreakpoints", {&Session::set_data_breakpoints, true}},
        {"gotoTargets", {&Session::goto_targets, true}},
        {"goto", {&Session::go_to, true}},
        {"next", {&Session::step, true}},
        {"stepIn", {&Session::step, true}},
        {"stepOut", {&Session::step, true}},
        {"stepBack", {&Session::step_back, true}},
        {"continue", {&Session::go_on, true}},
        {"reverseContinue", {&Session::reverse_go_on, true}},
        {"restart", {&Session::restart, true}},
        {"pause", {&Session::pause, true}},
        {"threads", {&Session::threads, true}},
        {"stackTrace", {&Session::stack_trace, true}},
        {"scopes", {&Session::scopes, true}},
        {"variables", {&Session::variables, true}},
        {"evaluate", {&Session::evaluate, true}},
        {"completions", {&Session::completions, true}},
        {"cairn/command", {&Session::command, true}},
    };
    return all;
}

Result<> Session::serve() {
    while (!over_) {
        const auto request = TRY(channel_.next());
        if (!request) return {};
        obey(*request);
    }
    return {};
}

void Session::obey(const json& request) {
    const std::string name = request["command"];
    const auto found = known().find(name);
    if (found == known().end()) return channel_.refuse(request, fmt::format("there is no '{}' here", name));
    if (found->second.world && world_ == nullptr)
        return channel_.refuse(request, "no record is open yet: launch comes first");
    const json none = json::object();
    const auto given = request.find("arguments");
    const json& arguments = given != request.end() && given->is_object() ? *given : none;
    then_ = nullptr;
    if (world_ != nullptr) world_->show_late_output();
    Result<json> body;
    try {
        body = (this->*found->second.method)(arguments);
    } catch (const json::exception& problem) {
        body = fail_code(ExitCode::usage, "{}: {}", name, problem.what());
    }
    if (body)
        channel_.answer(request, std::move(*body));
    else
        channel_.refuse(request, body.error().what);
    if (const auto then = std::exchange(then_, nullptr)) then();
}

Result<Session::json> Session::initialize(const json& given) {
    hears_invalidated_ = given.value("supportsInvalidatedEvent", false);
    return json{{"supportsConfigurationDoneRequest", true},
                {"supportsFunctionBreakpoints", true},
                {"supportsStepBack", true},
                {"supportsEvaluateForHovers", true},
                {"supportsRestartRequest", true},
                {"supportsTerminateRequest", true},
                {"supportsDataBreakpoints", !options_.live},
                {"supportsGotoTargetsRequest", true},
                {"supportsDelayedStackTraceLoading", true},
                {"supportsCompletionsRequest", true}};
}

Result<Session::json> Session::launch(const json& given) {
    if (world_ != nullptr) return fail_code(ExitCode::usage, "a record is open already");
    const auto absolute = [](const std::string& path) {
        std::error_code ignored;
        return std::filesystem::absolute(path, ignored).lexically_normal().string();
    };
    tool::Options wished = options_;
    if (given.contains("record")) wished.folder = absolute(given["record"].get<std::string>());
    if (given.contains("program")) {
        wished.command = {given["program"].get<std::string>()};
        for (const auto& each : given.value("args", json::array()))
            wished.command.push_back(each.get<std::string>());
    }
    if (wished.folder.empty() || wished.command.empty())
        return fail_code(
            ExitCode::usage,
            "what is to be debugged? \"record\": the folder of a record made with --contents; "
            "\"program\", \"args\": the program that was recorded, and its arguments; or "
            "\"live\": true, for a record of any kind, and mpiexec and its words as \"program\" and "
            "\"args\"");
    wished.live = given.value("live", wished.live);
    wished.mpi = given.value("mpi", wished.mpi);
    wished.back_within = given.value("backWithin", wished.back_within);
    wished.checkpoints = given.value("checkpoints", wished.checkpoints);
    wished.every = given.value("every", wished.every);
    wished.memory = given.value("memory", wished.memory);
    wished.images = given.value("images", wished.images);
    wished.from = given.value("from", wished.from);
    stop_at_ = given.value("stopAt", "");
    if (!(wished.back_within > 0)) return fail_code(ExitCode::usage, "backWithin: more than 0 seconds");
    if (!wished.mpi.empty() && wished.mpi != "mpich" && wished.mpi != "openmpi")
        return fail_code(ExitCode::usage, "mpi is mpich or openmpi, not '{}'", wished.mpi);
    if (wished.live && (wished.memory > 0 || wished.images > 0))
        return fail_code(ExitCode::usage, "live goes without memory and images");
    CHECK_OK(open(wished));
    options_ = wished;
    then_ = [this] { channel_.event("initialized"); };
    return json::object();
}

Result<> Session::open(const tool::Options& wished) {
    const Show show = [this](int rank, bool error, const std::string& text) {
        output_.show(rank, error, text);
    };
    const auto note = [this](const std::string& text) { channel_.print("console", text + "\n"); };
    const auto take = [&](auto& opened) {
        world_ = &opened.world();
        commands_.emplace(world(), opened.bounds(), wished.folder);
    };
    if (wished.live) {
        job_ = TRY(live::OpenedJob::open(wished, show, note));
        take(*job_);
        return {};
    }
    opened_ = TRY(Opened::open(wished, show, note));
    take(*opened_);
    if (!opened_->notes().empty()) channel_.print("console", opened_->notes());
    return {};
}

Result<Session::json> Session::configured(const json&) {
    if (auto begun = commands_->begin(options_.from); !begun) {
        channel_.print("important", begun.error().what + "\n");
        then_ = [this] { channel_.event("terminated"); };
        return std::unexpected(begun.error());
    }
    std::string said;
    if (!stop_at_.empty())
        if (const auto moved = commands_->execute("to " + stop_at_); !moved) said = moved.error().what;
    then_ = [this, said] { stopped("entry", said); };
    return json::object();
}

Result<Session::json> Session::end(const json&) {
    over_ = true;
    then_ = [this] { channel_.event("terminated"); };
    return json::object();
}

void Session::release_ranks() {
    if (!job_ || inspectors_.empty()) return;
    inspectors_.clear();
    // Another gdb numbers its values anew.
    for (Reference& each : references_)
        if (each.kind == Reference::Kind::parts) each.kind = Reference::Kind::gone;
    if (hears_invalidated_) channel_.event("invalidated", {{"areas", {"variables"}}});
}

void Session::forget() {
    inspectors_.clear();
    frames_.clear();
    references_.clear();
    targets_.clear();
}

void Session::stopped(const std::string& reason, const std::string& said) {
    output_.show_rest();
    if (!said.empty()) channel_.print("console", said + (said.ends_with('\n') ? "" : "\n"));
    forget();
    const Process focus = world().focus();
    channel_.event("stopped", {{"reason", reason},
                               {"threadId", focus + 1},
                               {"allThreadsStopped", true},
                               {"description", world().text(focus)}});
}

Result<> debug_for_editor(const tool::Options& options) {
    // Whoever prints by mistake must not be taken for us.
    const Fd out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    const Fd in(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
    const Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!in || !out || !nothing) return fail_errno("standard input and output");
    ::dup2(nothing.get(), STDIN_FILENO);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };  // without SA_RESTART: what waits comes back
    ::sigaction(SIGINT, &action, nullptr);
    Channel channel(in.get(), out.get());
    Session session(channel, options);
    return session.serve();
}

}  // namespace cairn::mpi::debug::dap
