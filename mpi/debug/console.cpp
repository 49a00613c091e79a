#include "mpi/debug/console.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "common/json_text.h"
#include "common/printable.h"
#include "mpi/debug/commands.h"
#include "mpi/debug/gdb_front/front.h"
#include "mpi/debug/lines.h"
#include "mpi/debug/live/open.h"
#include "mpi/debug/open.h"
#include "mpi/debug/output.h"
#include "mpi/debug/web/front.h"

namespace cairn::mpi::debug {
namespace {

// A line that a rank prints, with the rank in front.
void print_line(bool json, int rank, bool error, const std::string& line) {
    if (json) {
        nlohmann::json out{{"rank", rank}, {"stream", error ? "stderr" : "stdout"}, {"line", line}};
        if (rank < 0) out["rank"] = nullptr;  // of a whole job: mpiexec doesn't say whose it is
        fmt::print("{}\n", json_text(out));
    } else if (rank < 0) {
        fmt::print("[job] {}\n", printable(line));
        std::fflush(stdout);  // it may be the only sign of life for a while
    } else {
        fmt::print("[{}] {}\n", rank, printable(line));
    }
}

void on_interrupt(int) {
    interrupted = 1;
}

void say(bool json, const Result<Answer>& answer) {
    if (answer) {
        nlohmann::json out = {{"ok", true}};
        out.update(answer->json);
        fmt::print("{}", json ? json_text(out) + "\n" : printable_lines(answer->text));
    } else if (json) {
        fmt::print("{}\n", json_text(nlohmann::json{{"ok", false}, {"error", answer.error().what}}));
    } else {
        fmt::print("{}\n", printable_lines(answer.error().what));
    }
    std::fflush(stdout);
}

class Console {
  public:
    Console(World& world, Bounds bounds, const tool::Options& options, Output& output, web::Front* front)
        : world_(world),
          commands_(world, bounds, options.folder),
          output_(output),
          front_(front),
          json_(options.json),
          asked_(!json_ && ::isatty(STDIN_FILENO) != 0),
          lines_(STDIN_FILENO, front != nullptr ? front->descriptor() : -1) {}

    [[nodiscard]] Result<> converse(const std::string& from);

  private:
    void prompt() const;
    void execute(std::string line);
    void serve_page();

    World& world_;
    Commands commands_;
    Output& output_;
    web::Front* front_;  // or none
    bool json_, asked_;
    Lines lines_;
    std::string last_;
};

void Console::prompt() const {
    if (!asked_) return;
    const State here = world_.state(world_.focus());
    fmt::print("({}:{}) ", here.rank, world_.moves().call_at(here));
    std::fflush(stdout);
}

void Console::execute(std::string line) {
    // As in gdb an empty line says the last one again.
    if (line.find_first_not_of(" \t\r") == std::string::npos) line = asked_ ? last_ : "";
    if (line.empty() || line[0] == '#') return;
    last_ = line;
    interrupted = 0;
    if (front_ != nullptr) front_->begin(line);
    const auto answer = commands_.execute(line);
    output_.show_rest();
    if (front_ != nullptr) front_->end(line, answer);
    say(json_, answer);
    interrupted = 0;
}

// What a page has had done is to be seen at the terminal as well. Programs that read JSON are told which
// answer isn't theirs.
void Console::serve_page() {
    auto done = front_->serve(commands_);
    if (!done) return;
    output_.show_rest();
    if (!json_) {
        fmt::print("{}by the page: {}\n", asked_ ? "\r" : "", printable(done->line));
    } else if (done->answer) {
        done->answer->json["page"] = done->line;
    }
    if (json_ && !done->answer)
        fmt::print("{}\n", json_text(nlohmann::json{
                               {"ok", false}, {"error", done->answer.error().what}, {"page", done->line}}));
    else
        say(json_, done->answer);
    std::fflush(stdout);
    prompt();
}

Result<> Console::converse(const std::string& from) {
    const auto begun = TRY(commands_.begin(from));
    if (!json_) say(false, begun);
    if (front_ != nullptr) front_->show_state();
    prompt();
    while (!commands_.over()) {
        switch (lines_.next()) {
            case Lines::What::line:
                execute(lines_.text());
                if (!commands_.over()) prompt();
                break;
            case Lines::What::end:
                return {};
            case Lines::What::other:
                serve_page();
                break;
            case Lines::What::interrupt:
                if (interrupted == 0) break;
                if (!asked_) return {};
                interrupted = 0;
                fmt::print("\n");
                prompt();
                break;
        }
    }
    return {};
}

void greet(const tool::Options& options, const Identity& identity, const World& world,
           const std::string& notes, const std::string& url) {
    const auto events = world.moves().computation().size();
    if (!options.json) {
        fmt::print("{} ranks of {}, {} events\n{}", identity.size, printable(identity.program), events,
                   printable_lines(notes));
        if (!url.empty()) fmt::print("the picture: {}\n", url);
    } else {
        nlohmann::json first = {{"ok", true},
                                {"ranks", identity.size},
                                {"program", identity.program},
                                {"events", events},
                                {"notes", notes}};
        if (!url.empty()) first["url"] = url;
        fmt::print("{}\n", json_text(first));
    }
    std::fflush(stdout);
}

}  // namespace

Result<> debug(const tool::Options& options) {
    std::unique_ptr<web::Front> front;
    Output output([&](int rank, bool error, const std::string& line) {
        print_line(options.json, rank, error, line);
        if (front) front->printed(rank, error, line);
    });
    struct sigaction action {};
    action.sa_handler = on_interrupt;  // without SA_RESTART: what waits comes back
    const Show show = [&](int rank, bool error, const std::string& text) { output.show(rank, error, text); };
    const auto note = [&](const std::string& text) {
        if (!options.json && ::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "cairn mpi: {}\n", text);
    };
    // The page ends before the world that it shows.
    const auto converse = [&](auto& opened, const std::string& notes) -> Result<> {
        if (options.web) front = TRY(web::Front::open(opened.world(), opened.identity().program, options));
        greet(options, opened.identity(), opened.world(), notes, front ? front->url() : "");
        if (options.gdb) {
            Commands commands(opened.world(), opened.bounds(), options.folder);
            return gdb_front::converse(opened.world(), commands, options.from);
        }
        auto done =
            Console(opened.world(), opened.bounds(), options, output, front.get()).converse(options.from);
        front.reset();
        return done;
    };
    if (options.live) {
        const auto opened = TRY(live::OpenedJob::open(options, show, note));
        ::sigaction(SIGINT, &action, nullptr);
        return converse(*opened, "");
    }
    const auto opened = TRY(Opened::open(options, show, note));
    ::sigaction(SIGINT, &action, nullptr);
    return converse(*opened, opened->notes());
}

}  // namespace cairn::mpi::debug
