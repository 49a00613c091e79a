#include "coordinator/publish.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "common/human.h"
#include "common/image/manifest.h"
#include "coordinator/folders.h"
#include "coordinator/own_folder.h"

namespace cairn::coordinator {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view partial_suffix = ".partial";
constexpr std::string_view removed_suffix = ".removed";

std::optional<std::uint32_t> number_of(std::string_view name) {
    std::uint32_t number = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (problem != std::errc() || end != name.data() + name.size() || name.empty() || name.front() == '0')
        return std::nullopt;
    return number;
}

std::string quoted(const std::string& text) {
    std::string result = "'";
    for (const char c : text) {
        if (c == '\'')
            result += "'\\''";
        else
            result += c;
    }
    return result + "'";
}

bool is_complete(const std::string& folder, const std::string& name) {
    struct stat info {};
    return number_of(name) && ::stat((folder + "/" + name + "/manifest.json").c_str(), &info) == 0;
}

}  // namespace

std::uint32_t next_generation(const std::string& root, const std::string& cid) {
    std::uint32_t highest = 0;
    const auto computation = fmt::format("{}/{}", root, cid);
    for (const std::string& name : names_in(computation)) {
        std::string_view base = name;
        if (base.ends_with(partial_suffix)) base.remove_suffix(partial_suffix.size());
        if (const auto number = number_of(base)) highest = std::max(highest, *number);
    }
    return highest + 1;
}

Result<Partial> begin_checkpoint(const std::string& root, const std::string& cid) {
    Partial partial;
    partial.root = root;
    partial.cid = cid;
    CHECK_OK(prepare_folder(root, cid));
    CHECK_OK(sync_folder(root));
    remove_leftovers(partial.folder());
    partial.generation = next_generation(root, cid) - 1;
    for (int tries = 0; tries < 1000; ++tries) {
        ++partial.generation;
        // Who made N.partial owns N: a name that is there belongs to another session restarted from the same
        // computation.
        if (auto made_it = make_folder(partial.partial()); !made_it) {
            if (made_it.error().number == EEXIST) continue;
            return std::unexpected(std::move(made_it.error()).in("can't be made"));
        }
        partial.lock.reset(::open(partial.partial().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!partial.lock || ::flock(partial.lock.get(), LOCK_EX | LOCK_NB) != 0) {
            // Between mkdir and flock it looked abandoned to another session's tidying up.
            continue;
        }
        struct stat info {};
        if (::stat(partial.final().c_str(), &info) == 0 || ::stat(partial.partial().c_str(), &info) != 0) {
            abandon(partial);
            continue;
        }
        return partial;
    }
    return fail("{}: no free generation number", partial.folder());
}

Result<std::uint64_t> free_space(const std::string& folder) {
    struct statvfs info {};
    if (::statvfs(folder.c_str(), &info) != 0) return fail_errno("{}: statvfs", folder);
    // The last percents are root's on many file systems.
    const std::uint64_t blocks = ::geteuid() == 0 ? info.f_bfree : info.f_bavail;
    return blocks * info.f_frsize;
}

Result<std::vector<std::string>> publish(Partial& partial, const schema::Manifest& manifest,
                                         const std::function<void(const char*)>& step) {
    const auto at = [&step](const char* name) {
        if (step) step(name);
    };
    const std::string folder = partial.partial();

    at("manifest");
    if (auto written = write_manifest(partial.lock.get(), manifest); !written)
        return std::unexpected(std::move(written.error()).in(folder));
    at("script");
    if (auto written = write_file(folder + "/restart.sh", restart_script(manifest, cairn_command()), 0700);
        !written)
        return std::unexpected(written.error());
    at("sync");
    CHECK_OK(sync_folder(folder));
    at("rename");
    if (::rename(folder.c_str(), partial.final().c_str()) != 0)
        return fail_errno("{}: rename from {}", partial.final(), folder);
    CHECK_OK(sync_folder(partial.folder()));

    // From here on the checkpoint is complete.
    at("latest");
    auto led = lead_to(partial.root, partial.cid, partial.generation, [&at] { at("restart"); });
    partial.lock.reset();
    if (!led) return std::unexpected(std::move(led.error()).in(partial.final() + " is complete, but"));
    at("done");
    return doubts(partial.final());
}

void abandon(Partial& partial) {
    std::error_code ignored;
    fs::remove_all(partial.partial(), ignored);
    partial.lock.reset();
    // An empty folder of a computation that was never saved is litter; rmdir refuses any other.
    ::rmdir(partial.folder().c_str());
}

std::vector<std::uint32_t> complete_generations(const std::string& folder) {
    std::vector<std::uint32_t> generations;
    for (const std::string& name : names_in(folder))
        if (is_complete(folder, name)) generations.push_back(*number_of(name));
    std::sort(generations.begin(), generations.end());
    return generations;
}

std::vector<std::uint32_t> prune(const std::string& root, const std::string& cid, std::uint32_t keep,
                                 const std::vector<std::string>& in_use) {
    std::vector<std::uint32_t> removed;
    const std::string folder = root + "/" + cid;
    const auto generations = complete_generations(folder);
    if (keep == 0 || generations.size() <= keep) return removed;
    std::error_code ignored;
    for (std::size_t i = 0; i < generations.size() - keep; ++i) {
        const std::string path = fmt::format("{}/{}", folder, generations[i]);
        const bool used = std::any_of(in_use.begin(), in_use.end(), [&path](const std::string& other) {
            std::error_code missing;
            return fs::equivalent(path, other, missing);
        });
        if (used) continue;
        // First the name goes: half a checkpoint must never look like one.
        const std::string doomed = path + std::string(removed_suffix);
        fs::remove_all(doomed, ignored);
        if (::rename(path.c_str(), doomed.c_str()) != 0) continue;
        fs::remove_all(doomed, ignored);
        removed.push_back(generations[i]);
    }
    return removed;
}

std::string cairn_command() {
    std::error_code problem;
    const fs::path self = fs::read_symlink("/proc/self/exe", problem);
    if (problem) return "cairn";
    for (const fs::path& candidate :
         {self.parent_path() / "cairn", self.parent_path() / ".." / ".." / "bin" / "cairn"})
        if (::access(candidate.c_str(), X_OK) == 0) return candidate.lexically_normal().string();
    return "cairn";
}

std::string restart_script(const schema::Manifest& manifest, const std::string& cairn) {
    const std::time_t taken = static_cast<std::time_t>(manifest.taken_at_ns / 1'000'000'000);
    std::tm local{};
    char date[64] = "";
    if (manifest.taken_at_ns > 0 && ::localtime_r(&taken, &local) != nullptr)
        std::strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S %z", &local);

    std::string text =
        "#!/bin/sh\n# Brings this computation back:   restart.sh [options of cairn restart]\n#\n";
    text += fmt::format("# computation  {}\n", printable(manifest.cid));
    text += fmt::format("# checkpoint   {}, {}, session {}\n", manifest.generation,
                        human_count(static_cast<std::uint64_t>(manifest.np), "process", "processes"),
                        printable(manifest.session));
    text += fmt::format("# taken        {} on {}\n", date, printable(manifest.host));
    if (!manifest.parts.empty())
        text += "#\n# Parts; each can be brought back on a terminal of its own:   restart.sh --part N\n";
    for (const schema::ManifestPart& part : manifest.parts) {
        text += fmt::format("#   {}  {}, {}:", part.number, printable(part.host),
                            part.terminal.empty() ? "no terminal" : printable(part.terminal));
        for (const ProgramId pid : part.pids) {
            const auto image =
                std::find_if(manifest.images.begin(), manifest.images.end(),
                             [pid](const schema::ManifestImage& one) { return one.pid == pid; });
            text += fmt::format(" {}", pid);
            if (image != manifest.images.end()) text += fmt::format(" ({})", printable(image->name));
        }
        text += "\n";
    }
    text += fmt::format(
        "\n"
        "here=$(dirname -- \"$(readlink -f -- \"$0\")\")\n"
        "installed={}\n"
        "cairn=${{CAIRN:-$installed}}\n"
        "if ! command -v \"$cairn\" >/dev/null 2>&1; then\n"
        "    found=$(command -v cairn) || {{\n"
        "        echo \"restart.sh: there is no $cairn, and no cairn in PATH: set CAIRN to the command\" "
        ">&2\n"
        "        exit 1\n"
        "    }}\n"
        "    cairn=$found\n"
        "fi\n"
        "exec \"$cairn\" restart \"$here\" \"$@\"\n",
        quoted(cairn));
    return text;
}

}  // namespace cairn::coordinator
