#include "coordinator/settings.h"

#include <boost/program_options.hpp>
#include <filesystem>
#include <iostream>

#include "common/uid.h"
#include "coordinator/network.h"
#include "coordinator/own_folder.h"

namespace cairn::coordinator {

namespace po = boost::program_options;
namespace fs = std::filesystem;

std::string absolute_path(const std::string& path, const std::string& from) {
    std::error_code problem;
    fs::path whole = path;
    if (whole.is_relative()) {
        fs::path base = from.empty() ? fs::current_path(problem) : fs::path(from);
        whole = base / whole;
    }
    std::string text = whole.lexically_normal().string();
    while (text.size() > 1 && text.ends_with('/')) text.pop_back();
    return text;
}

namespace {

bool is_yes(const char* value) {
    return value != nullptr && *value != '\0' && std::string_view(value) != "0" &&
           std::string_view(value) != "no";
}

}  // namespace

Result<std::optional<Settings>> read_settings(int argc, const char* const* argv) {
    po::options_description options(
        "cairn coordinator: keeps a session of programs together and takes their checkpoints\n"
        "\nOptions (those with a variable in brackets also by the environment variable in brackets)");
    double interval = 0, linger = 10;
    std::int64_t keep = 3;
    // clang-format off
    options.add_options()
        ("session", po::value<std::string>(), "name of the session, `default` if none is given [CAIRN_SESSION]")
        ("ckptdir", po::value<std::string>(), "folder for checkpoints; if none is given the current one, or cairn-USER in it where others can write it [CAIRN_CKPTDIR]")
        ("interval", po::value<double>(&interval), "seconds between checkpoints, 0 for none [CAIRN_INTERVAL]")
        ("keep", po::value<std::int64_t>(&keep), "generations of checkpoints to keep, 0 for all; 3 if not given [CAIRN_KEEP]")
        ("daemon", "leave the terminal; returns when the session can be used, or is used already")
        ("auto", "end by itself when the last process has left")
        ("linger", po::value<double>(&linger), "with --auto: seconds to wait for another process; 10 if not given")
        ("self-contained", "images hold the unmodified parts of mapped files too [CAIRN_SELF_CONTAINED=1]")
        ("external", po::value<std::string>(), "connections to the outside: reset (by a restart), refuse (the checkpoint), keep-listening [CAIRN_EXTERNAL]")
        ("listen", po::value<std::string>(), "HOST:PORT (or :PORT) for coordinators of other hosts, which have to know the key [CAIRN_LISTEN]")
        ("coordinator", po::value<std::string>(), "HOST:PORT of the first host's coordinator: this one keeps this host's programs for it [CAIRN_COORDINATOR]")
        ("key", po::value<std::string>(), "file with the key that coordinators prove to each other [CAIRN_KEY_FILE; CAIRN_KEY is the key itself]")
        ("host", po::value<std::string>(), "what this host is called in the computation, its own name if not given [CAIRN_HOST]")
        ("help,h", "this text");
    // clang-format on
    po::positional_options_description none;
    po::variables_map given;
    try {
        po::store(po::command_line_parser(argc, argv)
                      .options(options)
                      .positional(none)
                      .style(po::command_line_style::default_style & ~po::command_line_style::allow_guessing)
                      .run(),
                  given);
        const auto from_environment = [](const std::string& variable) -> std::string {
            const char* value = std::getenv(variable.c_str());
            if (value == nullptr || *value == '\0') return {};
            if (variable == "CAIRN_SESSION") return "session";
            if (variable == "CAIRN_CKPTDIR") return "ckptdir";
            if (variable == "CAIRN_INTERVAL") return "interval";
            if (variable == "CAIRN_KEEP") return "keep";
            if (variable == "CAIRN_EXTERNAL") return "external";
            if (variable == "CAIRN_LISTEN") return "listen";
            if (variable == "CAIRN_COORDINATOR") return "coordinator";
            if (variable == "CAIRN_KEY_FILE") return "key";
            if (variable == "CAIRN_HOST") return "host";
            return {};
        };
        po::store(po::parse_environment(options, from_environment), given);
        po::notify(given);
    } catch (const po::error& problem) {
        return fail_code(ExitCode::usage, "{}; --help lists the options", problem.what());
    }
    if (given.contains("help")) {
        std::cout << options << "\nOn a terminal or from a pipe it takes commands; h lists them.\n";
        return std::optional<Settings>();
    }
    Settings settings;
    settings.session =
        given.contains("session") ? given["session"].as<std::string>() : std::string(default_session);
    if (const std::string problem = session_name_problem(settings.session); !problem.empty())
        return fail_code(ExitCode::usage, "{}", problem);
    if (!(interval >= 0 && interval <= 1e8))
        return fail_code(ExitCode::usage, "--interval: 0 or more seconds");
    if (!(linger >= 0 && linger <= 1e8)) return fail_code(ExitCode::usage, "--linger: 0 or more seconds");
    if (keep < 0 || keep > 1'000'000)
        return fail_code(ExitCode::usage, "--keep: 0 (all) to 1000000 generations");
    settings.ckptdir_given = given.contains("ckptdir");
    settings.interval_given = given.contains("interval");
    settings.keep_given = given.contains("keep");
    settings.ckptdir = settings.ckptdir_given ? absolute_path(given["ckptdir"].as<std::string>())
                                              : default_folder(absolute_path("."));
    settings.interval = std::chrono::milliseconds(static_cast<std::int64_t>(interval * 1000));
    settings.linger = std::chrono::milliseconds(static_cast<std::int64_t>(linger * 1000));
    settings.keep = static_cast<std::uint32_t>(keep);
    settings.daemon = given.contains("daemon");
    settings.automatic = given.contains("auto");
    settings.self_contained = given.contains("self-contained") || is_yes(std::getenv("CAIRN_SELF_CONTAINED"));
    settings.self_contained_given = settings.self_contained;
    const auto text = [&given](const char* name) {
        return given.contains(name) ? given[name].as<std::string>() : std::string();
    };
    settings.listen = text("listen");
    settings.coordinator = text("coordinator");
    settings.key_file = text("key").empty() ? "" : absolute_path(text("key"));
    settings.host = text("host").empty() ? host_name() : text("host");
    if (settings.host.size() > 255) return fail_code(ExitCode::usage, "--host: at most 255 bytes");
    for (const std::string& endpoint : {settings.listen, settings.coordinator})
        if (!endpoint.empty()) CHECK_OK(error_of(parse_endpoint(endpoint)));
    if (!settings.listen.empty() && !settings.coordinator.empty())
        return fail_code(ExitCode::usage,
                         "--listen is for the root, --coordinator for the others: one of them");
    settings.external_given = given.contains("external");
    if (settings.external_given) settings.external = given["external"].as<std::string>();
    if (!external_policy(settings.external))
        return fail_code(ExitCode::usage, "--external: reset, refuse or keep-listening, not '{}'",
                         settings.external);
    return std::optional(std::move(settings));
}

}  // namespace cairn::coordinator
