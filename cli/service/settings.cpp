#include "cli/service/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "cli/job/settings_lines.h"
#include "common/external_policy.h"
#include "common/landlock_policy.h"

namespace cairn::service {
namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

// $VARIABLE, else what stands for it below the home folder.
Result<std::string> users_folder(const char* name, const char* below_home) {
    if (std::string given = variable(name); given.starts_with('/')) return given;
    const std::string home = variable("HOME");
    if (!home.starts_with('/')) return fail("HOME isn't set, nor is {}", name);
    return home + "/" + below_home;
}

bool is_one_of(const std::string& value, std::initializer_list<const char*> known) {
    return std::ranges::any_of(known, [&](const char* each) { return value == each; });
}

bool take_yes(const std::string& value, bool& setting) {
    setting = value == "yes";
    return value == "yes" || value == "no";
}

bool take_word(const std::string& value, std::initializer_list<const char*> known, std::string& setting) {
    setting = value;
    return is_one_of(value, known);
}

bool take_program(const std::string& value, Settings& settings) {
    auto words = split_words(value);
    if (!words || words->empty()) return false;
    settings.programs.push_back(std::move(*words));
    return true;
}

bool take_setting(const std::string& name, const std::string& value, Settings& settings) {
    if (name == "program") return take_program(value, settings);
    if (name == "directory") {
        settings.working = value;
        return value.starts_with('/');
    }
    if (name == "ckptdir") {
        settings.folder = value + "/" + settings.name;
        return value.starts_with('/');
    }
    if (name == "interval") return job::take_number(value, settings.interval);
    if (name == "keep") return job::take_number(value, settings.keep) && settings.keep > 0;
    if (name == "verify") return take_yes(value, settings.verify);
    if (name == "sync") return take_yes(value, settings.sync);
    if (name == "full") return take_yes(value, settings.full);
    if (name == "fresh") {
        settings.fresh = value == "if-needed" ? Fresh::if_needed : Fresh::first;
        return is_one_of(value, {"first", "if-needed"});
    }
    if (name == "external") {
        settings.external = value;
        return external_policy(value).has_value();
    }
    if (name == "landlock") {
        settings.landlock = value;
        return landlock_policy(value).has_value();
    }
    if (name == "files")
        return take_word(value, {"auto", "refuse", "use", "truncate", "make"}, settings.files);
    if (name == "ids") return take_word(value, {"auto", "exact", "virtual"}, settings.ids);
    return false;
}

// systemd has made a folder for the unit's state where the unit says so.
Result<std::string> own_folder(const Settings& settings) {
    if (const std::string given = variable("STATE_DIRECTORY"); !given.empty())
        return given.substr(0, given.find(':'));
    if (settings.owner == Owner::system) return "/var/lib/cairn/" + settings.name;
    return TRY(users_folder("XDG_STATE_HOME", ".local/state")) + "/cairn/" + settings.name;
}

}  // namespace

Result<> check_name(const std::string& name) {
    const bool good = !name.empty() && name.size() <= 40 && name[0] != '.' && name[0] != '-' &&
                      std::ranges::all_of(name, [](unsigned char c) {
                          return c < 128 && (std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-');
                      });
    if (good) return {};
    return fail_code(
        ExitCode::usage,
        "service: '{}' is no name of a service: 1 to 40 of letters, digits, '.', '_', '-', not first "
        "'.' or '-'",
        name);
}

Result<Settings> read_settings(const std::string& name, Owner owner) {
    CHECK_OK(check_name(name));
    Settings settings;
    settings.name = name;
    settings.owner = owner;
    const std::string folder =
        owner == Owner::system ? "/etc" : TRY(users_folder("XDG_CONFIG_HOME", ".config"));
    settings.file = folder + "/cairn/services/" + name + ".conf";
    const auto text = TRY(job::text_of_file(settings.file));
    if (!text)
        return fail(
            "{}: there is no such file; it has a line program=COMMAND for each program of the service "
            "(docs/services.md)",
            settings.file);
    CHECK_OK(read_lines(*text, settings.file, settings));
    if (settings.programs.empty()) return fail("{}: it has no line program=COMMAND", settings.file);
    if (settings.folder.empty()) settings.folder = TRY(own_folder(settings));
    return settings;
}

Result<> read_lines(const std::string& text, const std::string& where, Settings& settings) {
    return job::take_lines(text, where, "docs/services.md", job::Comments::whole_lines,
                           [&](const std::string& name, const std::string& value) {
                               return take_setting(name, value, settings);
                           });
}

Result<job::Words> split_words(const std::string& line) {
    job::Words words;
    bool in_word = false;
    char quote = 0;
    for (std::size_t at = 0; at < line.size(); ++at) {
        const char c = line[at];
        if (quote == 0 && (c == ' ' || c == '\t')) {
            in_word = false;
            continue;
        }
        if (!in_word) words.emplace_back();
        in_word = true;
        if (quote == 0 && (c == '\'' || c == '"')) {
            quote = c;
        } else if (quote == c) {
            quote = 0;
        } else if (c == '\\' && quote != '\'') {
            if (++at == line.size()) return fail("nothing stands behind the last backslash");
            // As in a shell: within double quotes it is itself unless it is needed.
            if (quote == '"' && line[at] != '"' && line[at] != '\\') words.back() += '\\';
            words.back() += line[at];
        } else {
            words.back() += c;
        }
    }
    if (quote != 0) return fail("a quote isn't closed");
    return words;
}

}  // namespace cairn::service
