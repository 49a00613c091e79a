// Programs that were started as one of many by a launcher that is outside (cairn launch under mpiexec): the
// connection on which they ask it for each other, and pipes of theirs that it has given to others as well.
#include <sys/stat.h>

#include <algorithm>
#include <charconv>

#include "capture/objects/table.h"
#include "common/proc.h"

namespace cairn::capture {
namespace {

// In the environment that a process was executed with; -1 if it isn't there, or no number.
int number_in(std::string_view environment, std::string_view name) {
    for (std::size_t at = 0; at < environment.size();) {
        const std::size_t end = std::min(environment.find('\0', at), environment.size());
        const std::string_view word = environment.substr(at, end - at);
        at = end + 1;
        if (!word.starts_with(name) || word.size() <= name.size() || word[name.size()] != '=') continue;
        const std::string_view text = word.substr(name.size() + 1);
        int value = -1;
        const auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
        return problem == std::errc() && rest == text.data() + text.size() ? value : -1;
    }
    return -1;
}

Result<std::string> environment_of(const Holder& holder) {
    return proc::read_file(fmt::format("/proc/{}/environ", holder.tid != 0 ? holder.tid : holder.pid));
}

// Processes above the members, up to init.
std::set<pid_t> ancestors_outside(const Table& table) {
    std::set<pid_t> found;
    for (const pid_t member : table.members)
        for (pid_t at = member; at > 0;) {
            const auto stat = proc::stat(at);
            if (!stat) break;
            at = stat->ppid;
            // One that is known already leads to others that are.
            if (at > 0 && !table.members.contains(at) && !found.insert(at).second) break;
        }
    return found;
}

}  // namespace

void note_rank(Table& table, const Holder& holder, std::span<const schema::Descriptor> descriptors) {
    const auto is_unix = [&](const schema::Descriptor& descriptor) {
        return table.objects[static_cast<std::size_t>(descriptor.object)].type == "unix";
    };
    if (std::ranges::none_of(descriptors, is_unix)) return;
    const auto environment = environment_of(holder);
    if (!environment) return;
    const int fd = number_in(*environment, "PMI_FD");
    const auto found = std::ranges::find(descriptors, fd, &schema::Descriptor::fd);
    if (fd < 0 || found == descriptors.end() || !is_unix(*found)) return;
    const Table::Rank rank{fd, number_in(*environment, "PMI_RANK"), number_in(*environment, "PMI_SIZE")};
    if (rank.number >= 0 && rank.number < rank.of) table.ranks.emplace(found->object, rank);
}

bool is_pmix_server(const Holder& holder, const std::string& address) {
    const auto environment = environment_of(holder);
    if (!environment) return false;
    // PMIX_SERVER_URI41=4849664.0;tcp4://127.0.0.1:57467, and others with the number of another version
    const std::string place = "://" + address;
    for (std::size_t at = 0; at < environment->size();) {
        const std::size_t end = std::min(environment->find('\0', at), environment->size());
        const auto word = std::string_view(*environment).substr(at, end - at);
        at = end + 1;
        if (word.starts_with("PMIX_SERVER_URI") && word.ends_with(place)) return true;
    }
    return false;
}

const std::set<ino_t>& pipes_read_outside(Table& table) {
    if (table.read_outside) return *table.read_outside;
    auto& found = table.read_outside.emplace();
    for (const pid_t ancestor : ancestors_outside(table)) {
        auto numbers = list_descriptors({.pid = ancestor});
        if (!numbers) continue;  // of another user
        for (const int number : *numbers) {
            const std::string path = fmt::format("/proc/{}/fd/{}", ancestor, number);
            struct stat file {};
            struct stat link {};
            if (::stat(path.c_str(), &file) != 0 || !S_ISFIFO(file.st_mode)) continue;
            // The link's own mode tells how the file is open: proc_pid_fd(5).
            if (::lstat(path.c_str(), &link) == 0 && (link.st_mode & S_IRUSR)) found.insert(file.st_ino);
        }
    }
    return found;
}

}  // namespace cairn::capture
