// `cairn mpi debug --dap`: an editor in front of the debugger, by the Debug Adapter Protocol. Ranks are its
// threads (number 1 is rank 0), calls of the MPI its steps.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mpi/debug/commands.h"
#include "mpi/debug/dap/channel.h"
#include "mpi/debug/dap/inspector.h"
#include "mpi/debug/live/open.h"
#include "mpi/debug/open.h"
#include "mpi/debug/output.h"
#include "mpi/tool/options.h"

namespace cairn::mpi::debug::dap {

class Session {
  public:
    // What `options` leave open the editor says when it launches.
    Session(Channel& channel, tool::Options options);

    // Until the editor ends it, or goes.
    [[nodiscard]] Result<> serve();

  private:
    using json = nlohmann::json;
    using Method = Result<json> (Session::*)(const json& arguments);
    struct Known {
        Method method;
        bool world;  // only once there is one
    };
    static const std::map<std::string, Known>& known();
    void obey(const json& request);
    void stopped(const std::string& reason, const std::string& said = {});
    // Everybody may stand elsewhere now.
    void forget();
    // No gdb holds a rank of a living job any more: before anything else looks at one, or moves it.
    void release_ranks();

    // The beginning (session.cpp).
    Result<json> initialize(const json& arguments);
    Result<json> launch(const json& arguments);
    Result<> open(const tool::Options& wished);
    Result<json> configured(const json& arguments);
    Result<json> end(const json& arguments);

    // Breakpoints (breakpoints.cpp).
    Result<json> set_breakpoints(const json& arguments);
    Result<json> set_function_breakpoints(const json& arguments);
    Result<json> data_breakpoint_info(const json& arguments);
    Result<json> set_data_breakpoints(const json& arguments);
    Result<json> goto_targets(const json& arguments);
    [[nodiscard]] std::set<std::uint32_t> break_places() const;
    // The line from this one on that a call of the MPI is at, and its places; 0: there is none.
    struct Line {
        std::uint32_t line = 0;
        std::set<std::uint32_t> places;
    };
    [[nodiscard]] Line line_with_call(const std::string& path, std::uint32_t from) const;

    // Movements (movements.cpp).
    Result<json> step(const json& arguments);
    Result<json> step_back(const json& arguments);
    Result<json> go_on(const json& arguments);
    Result<json> reverse_go_on(const json& arguments);
    Result<json> go_to(const json& arguments);
    Result<json> restart(const json& arguments);
    Result<json> pause(const json& arguments);
    Result<json> move(State to, const std::string& reason, const std::string& said = {});
    // Back to where one of the watched values changed last, if that is behind `limit`; false: none did.
    Result<bool> back_to_change(State limit);
    [[nodiscard]] Result<Process> rank_in(const json& arguments);

    // What is to be seen (looks.cpp).
    Result<json> threads(const json& arguments);
    Result<json> stack_trace(const json& arguments);
    Result<json> scopes(const json& arguments);
    Result<json> variables(const json& arguments);
    Result<json> evaluate(const json& arguments);
    Result<json> command(const json& arguments);
    Result<json> completions(const json& arguments);
    [[nodiscard]] Result<json> inspect(Process rank, const json& request);
    [[nodiscard]] json shown(Process rank, const json& told);
    [[nodiscard]] json of_the_mpi(Process rank) const;

    [[nodiscard]] World& world() const { return *world_; }
    [[nodiscard]] State here() { return world().state(world().focus()); }

    Channel& channel_;
    tool::Options options_;
    Output output_;
    std::string stop_at_;                   // where it stands first; "": rank 0's beginning
    std::unique_ptr<Opened> opened_;        // ranks that run alone,
    std::unique_ptr<live::OpenedJob> job_;  // or the whole job
    World* world_ = nullptr;                // of one of them
    std::optional<Commands> commands_;
    bool over_ = false;
    bool paused_ = false;             // by a request to pause that is still to come
    bool hears_invalidated_ = false;  // the editor knows the event
    std::function<void()> then_;      // when the request has been answered

    std::map<std::string, std::set<std::uint32_t>> lines_;  // of a source: places with a breakpoint
    std::set<std::uint32_t> functions_;
    std::vector<std::string> watched_;  // expressions
    std::vector<State> targets_;        // of goto; the id is the index

    // Good until somebody moves.
    std::map<Process, Inspector> inspectors_;
    std::vector<std::pair<Process, int>> frames_;  // the id is the index + 1
    struct Reference {
        enum class Kind { locals, globals, parts, mpi, gone } kind = Kind::locals;
        Process rank = 0;
        int number = 0;  // of a frame; of a value in its gdb
    };
    std::vector<Reference> references_;  // the id is the index + 1
};

[[nodiscard]] Result<> debug_for_editor(const tool::Options& options);

}  // namespace cairn::mpi::debug::dap
