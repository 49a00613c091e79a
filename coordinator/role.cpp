#include "coordinator/role.h"

#include <cstdlib>
#include <filesystem>

namespace cairn::coordinator {

std::string Client::folder() const {
    std::error_code problem;
    const auto here = std::filesystem::read_symlink(fmt::format("/proc/{}/cwd", pid), problem);
    return problem ? "/" : here.string();
}

Result<Key> key_of(const Settings& settings, const Session& session) {
    if (const char* given = std::getenv("CAIRN_KEY"); given != nullptr && *given != '\0')
        return Key::parse(given, "CAIRN_KEY");
    if (!settings.key_file.empty()) return Key::load(settings.key_file);
    if (!settings.coordinator.empty())
        return fail_code(
            ExitCode::refused,
            "the coordinator at {} wants its key proved: hand over the file `key` of its session by --key "
            "(CAIRN_KEY_FILE), or the key itself by CAIRN_KEY",
            settings.coordinator);
    return Key::load_or_make(session.directory + "/key");
}

}  // namespace cairn::coordinator
