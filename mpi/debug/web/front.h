// A web page in front of the debugger, beside its console: both show the same state, and a command of either
// is one of the debugger's one after the other.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "mpi/debug/commands.h"
#include "mpi/debug/web/desk.h"
#include "mpi/debug/web/server.h"
#include "mpi/tool/options.h"

namespace cairn::mpi::debug::web {

class Front {
  public:
    // By the thread that runs ranks. `world` outlives it; `program` is what the ranks are.
    [[nodiscard]] static Result<std::unique_ptr<Front>> open(World& world, const std::string& program,
                                                             const tool::Options& options);
    ~Front();

    [[nodiscard]] std::string url() const { return server_->url(); }

    // Readable when a page has asked for something; serve() then does it.
    [[nodiscard]] int descriptor() const { return desk_->descriptor(); }
    // A command and what it has answered, which the terminal shows as well; nothing: it was none.
    struct Done {
        std::string line;
        Result<debug::Answer> answer;
    };
    [[nodiscard]] std::optional<Done> serve(Commands& commands);

    // A line of the terminal's.
    void begin(const std::string& line);
    void end(const std::string& line, const Result<debug::Answer>& answer);
    // What a rank prints.
    void printed(int rank, bool error, const std::string& line);
    // Where everybody stands, to all pages.
    void show_state();

  private:
    Front(World& world, std::string folder) : world_(world), folder_(std::move(folder)) {}
    [[nodiscard]] Result<nlohmann::json> look(std::uint64_t event);
    [[nodiscard]] Result<History::Seen> seen_behind(AloneWorld& alone, Index event);
    void say(const std::string& line, bool terminal, const Result<debug::Answer>& answer);
    void show_line();
    void show_running(const std::string& line);

    World& world_;
    std::string folder_;
    std::unique_ptr<Desk> desk_;
    std::unique_ptr<Server> server_;  // the last, for its thread uses the desk
};

}  // namespace cairn::mpi::debug::web
