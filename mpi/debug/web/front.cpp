#include "mpi/debug/web/front.h"

#include "causality/view/view.h"
#include "mpi/debug/web/payload.h"
#include "mpi/tool/recovery_line.h"

namespace cairn::mpi::debug::web {
namespace {

using nlohmann::json;

constexpr const char* debugger_page =
#include "web_page.inc"
    ;

// The picture of the record, with what the debugger adds to it.
std::string page_of(const std::string& program, const Computation& computation) {
    causality::ViewOptions options;
    options.title = program.substr(program.rfind('/') + 1);
    options.places = 0;
    options.by_call = true;
    options.more = debugger_page;
    return causality::view_html(computation, options);
}

json error_json(const Error& error) {
    return {{"ok", false}, {"error", error.what}};
}

}  // namespace

Result<std::unique_ptr<Front>> Front::open(World& world, const std::string& program,
                                           const tool::Options& options) {
    std::unique_ptr<Front> front(new Front(world, options.folder));
    front->desk_ = TRY(Desk::open());
    Desk& desk = *front->desk_;
    const auto handle = [&desk](const std::string& what, const json& given, Respond respond) {
        const auto line = given.find("line"), event = given.find("event");
        if (what == "command" && line != given.end() && line->is_string())
            desk.ask({.look = false, .line = *line, .event = 0, .respond = std::move(respond)});
        else if (what == "look" && event != given.end() && event->is_number_unsigned())
            desk.ask({.look = true, .line = "", .event = *event, .respond = std::move(respond)});
        else if (what == "interrupt")
            desk.give_up(respond);
        else
            respond({what == "command" || what == "look" ? 400U : 404U,
                     {{"ok", false},
                      {"error", R"(POST command {"line": ...}, look {"event": ...} or interrupt {})"}}});
    };
    front->server_ = TRY(Server::start(options.port, page_of(program, world.moves().computation()), handle));
    desk.use(
        [server = front->server_.get()](std::function<bool()> what) { server->repeat(std::move(what)); });
    front->show_line();
    return front;
}

Front::~Front() {
    if (server_) server_->push("over", json::object(), true);
}

// The recovery line after all have failed, if the record has checkpoints of its own.
void Front::show_line() {
    const auto c = tool::trace_with_checkpoints(folder_);
    if (!c) return;
    const auto failed = tool::failed_ranks("", world_.ranks());
    if (!failed) return;
    json cut = json::array();
    const auto found = tool::recovery_line_of(*c, *failed);
    for (Process rank = 0; rank < world_.ranks(); ++rank) {
        const tool::Standpoint& each = found.ranks[rank];
        const Position all = world_.moves().computation().size(rank);
        const bool at_end = each.what == tool::Standpoint::What::end;
        if (!at_end && each.position > all) return;  // of another run: `line` says so
        cut.push_back(at_end ? all : each.position);
    }
    server_->push("line", {{"cut", cut}}, true);
}

void Front::show_state() {
    json within = json::array(), checkpoints = json::array();
    for (Process rank = 0; rank < world_.ranks(); ++rank) {
        within.push_back(world_.spot(rank).within);
        checkpoints.push_back(world_.checkpointed(rank));
    }
    const Process focus = world_.focus();
    server_->push("state",
                  {{"focus", focus},
                   {"event", world_.moves().call_at(world_.state(focus))},
                   {"cut", world_.cut()},
                   {"within", within},
                   {"checkpoints", checkpoints},
                   {"transit", world_.moves().in_transit(world_.cut())},
                   {"place", world_.text(focus)}},
                  true);
}

void Front::show_running(const std::string& line) {
    server_->push("running", {{"line", line}}, true);
}

void Front::say(const std::string& line, bool terminal, const Result<debug::Answer>& answer) {
    json said = {{"line", line}, {"terminal", terminal}, {"ok", answer.has_value()}};
    said["text"] = answer ? answer->text : answer.error().what;
    server_->push("said", said, false);
    if (answer && answer->json.value("command", "") == "line")
        server_->push("line", {{"cut", world_.cut()}}, true);
}

void Front::printed(int rank, bool error, const std::string& line) {
    server_->push("printed", {{"rank", rank}, {"error", error}, {"line", line}}, false);
}

void Front::begin(const std::string& line) {
    desk_->begin(line);
    show_running(line);
}

void Front::end(const std::string& line, const Result<debug::Answer>& answer) {
    desk_->end();
    say(line, true, answer);
    show_state();
    show_running("");
}

std::optional<Front::Done> Front::serve(Commands& commands) {
    const auto asked = desk_->take();
    if (!asked) return std::nullopt;
    if (asked->look) {
        auto seen = look(asked->event);
        if (!seen && interrupted != 0)
            seen = fail("given up: it takes too long to get there, or something else was asked for");
        desk_->end();
        if (seen) seen->update({{"ok", true}});
        asked->respond({200, seen ? *seen : error_json(seen.error())});
        return std::nullopt;
    }
    show_running(asked->line);
    Result<debug::Answer> answer =
        commands.runs_at_terminal(asked->line)
            ? Result<debug::Answer>(fail_code(
                  ExitCode::refused, "gdb needs the terminal: type it there, where the debugger was started"))
            : commands.execute(asked->line);
    desk_->end();
    say(asked->line, false, answer);
    show_state();
    show_running("");
    json told = answer ? answer->json : error_json(answer.error());
    if (answer) told.update({{"ok", true}, {"text", answer->text}});
    asked->respond({200, told});
    return Done{asked->line, std::move(answer)};
}

Result<History::Seen> Front::seen_behind(AloneWorld& alone, Index event) {
    const Moves& moves = alone.moves();
    const State in = moves.at(event);
    const State behind = moves.behind(in.rank, moves.call_at(in));
    return alone.history(in.rank).look({behind.position, false});
}

Result<json> Front::look(std::uint64_t event) {
    const Computation& c = world_.moves().computation();
    if (event >= c.size()) return fail_code(ExitCode::usage, "there is no event {}", event);
    auto* const alone = dynamic_cast<AloneWorld*>(&world_);
    if (alone == nullptr)
        return fail_code(ExitCode::refused,
                         "with --live all run together: go there, and `where` shows the stacks");
    const auto index = static_cast<Index>(event);
    auto seen = TRY(seen_behind(*alone, index));
    json told = {{"stack", seen.stack}};
    // What a message brought is known where it came to.
    const bool sent = c.event(index).kind == causality::Kind::send;
    if (sent && c.partner(index) == causality::none) return told;
    if (sent) seen = TRY(seen_behind(*alone, c.partner(index)));
    told["payload"] = json::array();
    for (const auto& each : seen.given) told["payload"].push_back(text_of(each));
    return told;
}

}  // namespace cairn::mpi::debug::web
