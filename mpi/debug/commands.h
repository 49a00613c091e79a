// The commands of the debugger's console.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "mpi/debug/alone_world.h"
#include "mpi/debug/live/live_world.h"

namespace cairn::mpi::debug {

// What a command answers, for people and for programs.
struct Answer {
    std::string text;
    nlohmann::json json = nlohmann::json::object();
};

class Commands {
  public:
    Commands(World& world, Bounds bounds, std::string folder)
        : world_(world), bounds_(bounds), folder_(std::move(folder)) {}
    // Code usage: there is no such command, or not with these words.
    [[nodiscard]] Result<Answer> execute(const std::string& line);
    [[nodiscard]] bool over() const { return over_; }
    // Whether a line begins with a command's whole name.
    [[nodiscard]] static bool is_command(const std::string& line);
    [[nodiscard]] static std::vector<std::string> names();
    // A command that converses at the terminal by itself.
    [[nodiscard]] static bool runs_at_terminal(const std::string& line);
    // To where a debugger begins: the ranks' beginnings, or with `from` ("R,..." or "all") the recovery line
    // after these have failed.
    [[nodiscard]] Result<Answer> begin(const std::string& from);
    // Where the focus is.
    [[nodiscard]] Answer place() const;

  private:
    using Method = Result<Answer> (Commands::*)(const std::string&);
    struct Known {
        const char* name;
        const char* arguments;
        const char* text;
        Method method;
    };
    static const std::vector<Known>& known();
    // By its name, or by its beginning if no other begins so.
    [[nodiscard]] static Result<const Known*> find(const std::string& name);

    Result<Answer> help(const std::string& words);
    Result<Answer> quit(const std::string& words);
    Result<Answer> look_at(const std::string& words);
    Result<Answer> go_to(const std::string& words);
    Result<Answer> step(const std::string& words);
    Result<Answer> reverse_step(const std::string& words);
    Result<Answer> go_on(const std::string& words);
    Result<Answer> reverse_go_on(const std::string& words);
    Result<Answer> break_at(const std::string& words);
    Result<Answer> remove_break(const std::string& words);
    Result<Answer> forward(const std::string& words);
    Result<Answer> back(const std::string& words);
    Result<Answer> line(const std::string& words);
    Result<Answer> where(const std::string& words);
    Result<Answer> why(const std::string& words);
    Result<Answer> print(const std::string& words);
    Result<Answer> watch(const std::string& words);
    Result<Answer> what_if(const std::string& words);
    // `words`: behind "from".
    Result<Answer> what_if_from(const std::string& words, const std::string& expression);
    // `words`: behind "request".
    Result<Answer> what_if_request(const std::string& words, const std::string& expression);
    Result<Answer> choices();
    Result<Answer> gdb(const std::string& words);
    Result<Answer> cut(const std::string& words);
    Result<Answer> in_transit(const std::string& words);
    Result<Answer> checkpoints(const std::string& words);
    Result<Answer> verify(const std::string& words);
    Result<Answer> waits(const std::string& words);
    Result<Answer> leave(const std::string& words);

    // What the ranks can be asked for when each runs alone. Code refused: they run together.
    [[nodiscard]] Result<AloneWorld*> alone_for(const char* command) const;
    [[nodiscard]] Answer checkpoints_of(const live::LiveWorld& world) const;

    [[nodiscard]] State here() const { return world_.state(world_.focus()); }
    [[nodiscard]] Result<Process> rank_of(const std::string& word) const;
    [[nodiscard]] Result<Answer> go(State to, const std::string& said = "");
    [[nodiscard]] Result<std::set<std::uint32_t>> break_places() const;

    World& world_;
    Bounds bounds_;
    std::string folder_;  // the record's
    std::map<unsigned, std::string> breaks_;
    unsigned next_break_ = 1;
    bool over_ = false;
};

}  // namespace cairn::mpi::debug
