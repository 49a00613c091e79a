#include "coordinator/settings.h"

#include <boost/program_options.hpp>
#include <filesystem>
#include <iostream>
#include <map>

#include "common/checkpoint_folder.h"
#include "common/compression.h"
#include "common/files_policy.h"
#include "common/id_list.h"
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

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

bool is_yes(const char* value) {
    return value != nullptr && *value != '\0' && std::string_view(value) != "0" &&
           std::string_view(value) != "no";
}

// What isn't what its words alone say.
struct Numbers {
    double interval = 0, linger = 10;
    std::int64_t keep = 3;
};

po::options_description describe(Numbers& numbers) {
    po::options_description options(
        "cairn coordinator: keeps a session of programs together and takes their checkpoints\n"
        "\nOptions (those with a variable in brackets also by the environment variable in brackets)");
    // clang-format off
    options.add_options()
        ("session", po::value<std::string>(), "name of the session, `default` if none is given [CAIRN_SESSION]")
        ("ckptdir", po::value<std::string>(), "folder for checkpoints; if none is given the current one, or cairn-USER in it where others can write it [CAIRN_CKPTDIR]")
        ("interval", po::value<double>(&numbers.interval), "seconds between checkpoints, 0 for none [CAIRN_INTERVAL]")
        ("keep", po::value<std::int64_t>(&numbers.keep), "generations of checkpoints to keep, 0 for all; 3 if not given [CAIRN_KEEP]")
        ("daemon", "leave the terminal; returns when the session can be used, or is used already")
        ("auto", "end by itself when the last process has left")
        ("linger", po::value<double>(&numbers.linger), "with --auto: seconds to wait for another process; 10 if not given")
        ("self-contained", "images hold the unmodified parts of mapped files too [CAIRN_SELF_CONTAINED=1]")
        ("track-mem", "ask the kernel which pages were written to [CAIRN_TRACK_MEM=1]")
        ("external", po::value<std::string>(), "connections to the outside: reset (by a restart), refuse (the checkpoint), keep-listening [CAIRN_EXTERNAL]")
        ("landlock", po::value<std::string>(), "programs that Landlock restricts: refuse (the checkpoint), drop (what restricts them, by a restart) [CAIRN_LANDLOCK]")
        ("compress", po::value<std::string>(), "how images are compressed: none, auto, lz4, zstd or zstd:LEVEL (1 to 19) [CAIRN_COMPRESS]")
        ("listen", po::value<std::string>(), "HOST:PORT (or :PORT) for coordinators of other hosts, which have to know the key [CAIRN_LISTEN]")
        ("coordinator", po::value<std::string>(), "HOST:PORT of the first host's coordinator: this one keeps this host's programs for it [CAIRN_COORDINATOR]")
        ("key", po::value<std::string>(), "file with the key that coordinators prove to each other [CAIRN_KEY_FILE; CAIRN_KEY is the key itself]")
        ("host", po::value<std::string>(), "what this host is called in the computation, its own name if not given [CAIRN_HOST]")
        ("help,h", "this text");
    // clang-format on
    return options;
}

// The option that a variable stands for; "": none.
std::string option_of(const std::string& variable) {
    static const std::map<std::string, std::string> options = {
        {"CAIRN_SESSION", "session"},   {"CAIRN_CKPTDIR", "ckptdir"},  {"CAIRN_INTERVAL", "interval"},
        {"CAIRN_KEEP", "keep"},         {"CAIRN_LISTEN", "listen"},    {"CAIRN_COORDINATOR", "coordinator"},
        {"CAIRN_EXTERNAL", "external"}, {"CAIRN_KEY_FILE", "key"},     {"CAIRN_HOST", "host"},
        {"CAIRN_COMPRESS", "compress"}, {"CAIRN_LANDLOCK", "landlock"}};
    const auto found = options.find(variable);
    const char* value = std::getenv(variable.c_str());
    return found == options.end() || value == nullptr || *value == '\0' ? "" : found->second;
}

// The command line goes first.
Result<po::variables_map> parse(const po::options_description& options, int argc, const char* const* argv) {
    po::variables_map given;
    try {
        po::store(po::command_line_parser(argc, argv)
                      .options(options)
                      .positional({})
                      .style(po::command_line_style::default_style & ~po::command_line_style::allow_guessing)
                      .run(),
                  given);
        po::store(po::parse_environment(options, option_of), given);
        po::notify(given);
    } catch (const po::error& problem) {
        return fail_code(ExitCode::usage, "{}; --help lists the options", problem.what());
    }
    return given;
}

Result<> check(const Settings& settings, const Numbers& numbers) {
    constexpr auto usage = ExitCode::usage;
    if (const std::string problem = session_name_problem(settings.session); !problem.empty())
        return fail_code(usage, "{}", problem);
    if (!(numbers.interval >= 0 && numbers.interval <= 1e8))
        return fail_code(usage, "--interval: 0 or more seconds");
    if (!(numbers.linger >= 0 && numbers.linger <= 1e8))
        return fail_code(usage, "--linger: 0 or more seconds");
    if (numbers.keep < 0 || numbers.keep > 1'000'000)
        return fail_code(usage, "--keep: 0 (all) to 1000000 generations");
    if (settings.host.size() > 255) return fail_code(usage, "--host: at most 255 bytes");
    for (const std::string& endpoint : {settings.listen, settings.coordinator})
        if (!endpoint.empty()) CHECK_OK(error_of(parse_endpoint(endpoint)));
    if (!settings.listen.empty() && !settings.coordinator.empty())
        return fail_code(usage, "--listen is for the root, --coordinator for the others: one of them");
    if (const auto files = variable("CAIRN_FILES"); !files.empty() && !is_files_policy(files))
        return fail_code(usage, "CAIRN_FILES: save or leave, not '{}'", files);
    if (!compression_named(settings.compress))
        return fail_code(usage, "--compress: {}, not '{}'", compression_words, settings.compress);
    if (!external_policy(settings.external))
        return fail_code(usage, "--external: reset, refuse or keep-listening, not '{}'", settings.external);
    if (!landlock_policy(settings.landlock))
        return fail_code(usage, "--landlock: {}, not '{}'", landlock_policy_words, settings.landlock);
    return {};
}

std::chrono::milliseconds whole_milliseconds(double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

}  // namespace

Result<std::optional<Settings>> read_settings(int argc, const char* const* argv) {
    Numbers numbers;
    const po::options_description options = describe(numbers);
    po::options_description all;
    // Not for people: a restart says by it which numbers the processes have that it brings back.
    all.add(options).add_options()("not-ids", po::value<std::string>());
    const auto given = TRY(parse(all, argc, argv));
    if (given.contains("help")) {
        std::cout << options << "\nOn a terminal or from a pipe it takes commands; h lists them.\n";
        return std::optional<Settings>();
    }
    const auto text = [&given](const char* name, const std::string& otherwise = {}) {
        return given.contains(name) ? given[name].as<std::string>() : otherwise;
    };
    Settings settings;
    settings.session = text("session", std::string(default_session));
    settings.listen = text("listen");
    settings.coordinator = text("coordinator");
    settings.key_file = text("key").empty() ? "" : absolute_path(text("key"));
    settings.host = text("host").empty() ? host_name() : text("host");
    settings.external = text("external", settings.external);
    settings.landlock = text("landlock", settings.landlock);
    settings.compress = text("compress", settings.compress);
    CHECK_OK(check(settings, numbers));
    auto not_ids = read_id_list(text("not-ids"));
    if (!not_ids) return fail_code(ExitCode::usage, "--not-ids: no list of ids");
    settings.not_ids = std::move(*not_ids);
    settings.ckptdir_given = given.contains("ckptdir");
    settings.interval_given = given.contains("interval");
    settings.keep_given = given.contains("keep");
    settings.external_given = given.contains("external");
    settings.landlock_given = given.contains("landlock");
    settings.compress_given = given.contains("compress");
    // Of `cairn launch`, or of a restart, whose coordinator this is.
    settings.files = variable("CAIRN_FILES");
    settings.with = variable("CAIRN_WITH");
    if (!settings.with.empty() && settings.files.empty()) settings.files = files_save;
    settings.files_given = !settings.files.empty();
    settings.ckptdir = settings.ckptdir_given ? absolute_path(text("ckptdir"))
                                              : default_checkpoint_folder(absolute_path("."));
    settings.interval = whole_milliseconds(numbers.interval);
    settings.linger = whole_milliseconds(numbers.linger);
    settings.keep = static_cast<std::uint32_t>(numbers.keep);
    settings.daemon = given.contains("daemon");
    settings.automatic = given.contains("auto");
    settings.self_contained = given.contains("self-contained") || is_yes(std::getenv("CAIRN_SELF_CONTAINED"));
    settings.self_contained_given = settings.self_contained;
    settings.track_mem = given.contains("track-mem") || is_yes(std::getenv("CAIRN_TRACK_MEM"));
    settings.track_mem_given = settings.track_mem;
    return std::optional(std::move(settings));
}

}  // namespace cairn::coordinator
