#include "cli/service/report.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/job/saved.h"
#include "cli/service/claim.h"
#include "cli/service/session.h"
#include "common/human.h"
#include "common/json_text.h"
#include "common/layout.h"

namespace cairn::service {
namespace {

std::optional<job::Saved> newest_of(const Settings& settings) {
    std::vector<std::string> damaged;
    auto saved = job::saved_below(settings.folder, damaged);
    if (saved.empty()) return std::nullopt;
    return std::move(saved.front());
}

bool is_program(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

// As execvp(3) finds it.
bool is_found(const std::string& name, const std::string& working) {
    if (name.find('/') != std::string::npos)
        return is_program(name.starts_with('/') || working.empty() ? name : working + "/" + name);
    const char* path = std::getenv("PATH");
    std::istringstream folders(path == nullptr ? "/bin:/usr/bin" : path);
    for (std::string folder; std::getline(folders, folder, ':');)
        if (is_program(folder.append("/").append(name))) return true;
    return false;
}

struct Finding {
    std::string what;
    bool good = false;
    std::string words;
};

Finding look_at_checkpoint(const Settings& settings) {
    std::vector<std::string> notes;
    const auto saved = job::newest_good(settings.folder, settings.verify, notes);
    std::string text;
    for (const std::string& note : notes) text += printable(note) + "; ";
    if (!saved) {
        if (notes.empty()) return {"checkpoint", true, "none yet: the next start begins anew"};
        return {"checkpoint", settings.fresh == Fresh::if_needed, text + "none is good"};
    }
    text += job::describe(*saved);
    if (holder_of(settings.folder)) return {"checkpoint", true, text + ", is whole"};
    const auto asked =
        job::run_command({own_program("cairn"), "restart", "--check", "--session", settings.session(),
                          "--files", settings.files, "--ids", settings.ids, saved->folder},
                         std::chrono::minutes(10), job::Errors::taken);
    if (asked && asked->code == 0) return {"checkpoint", true, text + ", can be restarted"};
    return {"checkpoint", settings.fresh == Fresh::if_needed,
            text + ": " + (asked ? printable_lines(asked->out) : asked.error().what)};
}

}  // namespace

Result<int> show_status(const Settings& settings, bool json) {
    const auto holder = holder_of(settings.folder);
    std::int64_t processes = 0;
    if (holder) {
        if (!holder->sessions.empty()) ::setenv("CAIRN_RUNDIR", holder->sessions.c_str(), 1);
        if (const auto state = session_state(settings.session())) processes = state->processes;
    }
    const auto newest = newest_of(settings);
    if (json) {
        nlohmann::json told{{"service", settings.name},
                            {"running", holder.has_value()},
                            {"pid", holder ? holder->pid : 0},
                            {"processes", processes},
                            {"session", settings.session()},
                            {"sessions", holder ? holder->sessions : ""},
                            {"file", settings.file},
                            {"ckptdir", settings.folder},
                            {"checkpoint", nullptr}};
        if (newest)
            told["checkpoint"] = {{"directory", newest->folder},
                                  {"generation", newest->manifest.generation},
                                  {"taken_at_ns", newest->manifest.taken_at_ns},
                                  {"bytes", newest->manifest.bytes}};
        fmt::print("{}\n", json_text(told));
        return 0;
    }
    fmt::print("service     {}\nfile        {}\n", settings.name, printable(settings.file));
    if (holder)
        fmt::print(
            "state       runs: process {}, {}\n", holder->pid,
            human_count(static_cast<std::uint64_t>(processes), "process", "processes of its programs"));
    else
        fmt::print("state       doesn't run\n");
    fmt::print("folder      {}\ncheckpoint  {}\n", printable(settings.folder),
               newest ? job::describe(*newest) : "none: the next start begins anew");
    if (holder)
        fmt::print("session     {}cairn list --session {}\n",
                   holder->sessions.empty() ? "" : "CAIRN_RUNDIR=" + printable(holder->sessions) + " ",
                   settings.session());
    return 0;
}

Result<int> check(const Settings& settings, bool json) {
    std::vector<Finding> found{{"settings", true, settings.file}};
    for (const job::Words& words : settings.programs) {
        const bool there = is_found(words[0], settings.working);
        found.push_back({"program", there, words[0] + (there ? "" : ": not found, or not executable")});
    }
    struct stat status {};
    const bool there = settings.working.empty() ||
                       (::stat(settings.working.c_str(), &status) == 0 && S_ISDIR(status.st_mode));
    if (!there) found.push_back({"directory", false, settings.working + ": there is no such folder"});
    found.push_back(look_at_checkpoint(settings));
    bool good = true;
    nlohmann::json told = nlohmann::json::array();
    for (const Finding& one : found) {
        good = good && one.good;
        told.push_back({{"what", one.what}, {"good", one.good}, {"words", one.words}});
        if (!json) fmt::print("{:<8} {:<11} {}\n", one.good ? "ok" : "wrong", one.what, one.words);
    }
    if (json)
        fmt::print("{}\n",
                   json_text(nlohmann::json{{"service", settings.name}, {"works", good}, {"checks", told}}));
    return static_cast<int>(good ? ExitCode::ok : ExitCode::refused);
}

Result<int> forget(const Settings& settings) {
    if (::access(settings.folder.c_str(), F_OK) != 0 && errno == ENOENT) return 0;
    const Claim claim = TRY(Claim::take(settings.folder));
    CHECK_OK(give_up_checkpoints(settings.folder));
    return 0;
}

}  // namespace cairn::service
