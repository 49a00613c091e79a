// Programs that were started as one of many by a launcher that is outside (cairn launch under mpiexec): the
// connection on which they ask it for each other (PMI 1: a Unix socket; PMIx: TCP), and pipes and terminals
// that it has made for them.
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>

#include "common/proc.h"
#include "resources/capture/table.h"
#include "resources/launcher/capture_pmix_client.h"

namespace cairn::capture {
namespace {

struct LaunchersFound {
    std::map<std::int64_t, schema::LauncherRank> ranks;  // by socket
    std::optional<HeldAbove> above;
    std::map<pid_t, std::string> folders;  // is_launchers_file()
};

// In the environment that a process was executed with; "" if it isn't there.
std::string_view text_in(std::string_view environment, std::string_view name) {
    for (std::size_t at = 0; at < environment.size();) {
        const std::size_t end = std::min(environment.find('\0', at), environment.size());
        const std::string_view word = environment.substr(at, end - at);
        at = end + 1;
        if (word.starts_with(name) && word.size() > name.size() && word[name.size()] == '=')
            return word.substr(name.size() + 1);
    }
    return {};
}

// -1 if it isn't there, or no number.
int number_in(std::string_view environment, std::string_view name) {
    const std::string_view text = text_in(environment, name);
    int value = -1;
    const auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    return problem == std::errc() && rest == text.data() + text.size() ? value : -1;
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
        return table.objects[static_cast<std::size_t>(descriptor.object)].is<schema::UnixSocket>();
    };
    if (std::ranges::none_of(descriptors, is_unix)) return;
    const auto environment = environment_of(holder);
    if (!environment) return;
    const ProgramFd fd(number_in(*environment, "PMI_FD"));
    const auto found = std::ranges::find(descriptors, fd, &schema::Descriptor::fd);
    if (!fd.known() || found == descriptors.end() || !is_unix(*found)) return;
    const int rank = number_in(*environment, "PMI_RANK"), size = number_in(*environment, "PMI_SIZE");
    if (rank < 0 || rank >= size) return;
    table.of<LaunchersFound>().ranks.emplace(found->object, schema::LauncherRank{fd, rank, size, {}, {}});
}

const schema::LauncherRank* rank_of(const Table& table, std::int64_t socket) {
    const auto& ranks = table.of<LaunchersFound>().ranks;
    const auto found = ranks.find(socket);
    return found == ranks.end() ? nullptr : &found->second;
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

Result<schema::LauncherRank> find_pmix_rank(Table& table, const Description& found) {
    const auto refused = [](std::string_view why) {
        return fail_code(ExitCode::refused,
                         "is the connection of an MPI program to mpirun, which is outside the group; {}: run "
                         "`cairn launch mpirun ...` instead of `mpirun cairn launch ...`",
                         why);
    };
    const auto environment = TRY(environment_of(found.holder));
    const std::string_view version = text_in(environment, "PMIX_VERSION");
    if (!version.starts_with("4."))
        return refused(fmt::format("of PMIx only version 4 can be answered after a restart, and this is {}",
                                   version.empty() ? "one that doesn't say which" : version));
    auto client = look_at_pmix_client(found.holder);
    if (!client)
        return refused(fmt::format("what it has asked mpirun can't be found out ({})", client.error().what));
    int unread = 0;
    (void)::ioctl(found.fd(), FIONREAD, &unread);
    const auto soon = [&](std::string_view why) {
        auto problem = refused(why);
        problem.error().passing = true;
        return problem;
    };
    if (client->starting) return soon("it is in MPI_Init, where mpirun tells it of the others");
    // An answer that has come, and that the library hasn't looked at.
    if (unread != 0 && !client->awaited.empty()) return soon("mpirun has just answered it");
    // Whatever isn't a fence is answered at once.
    if (!client->awaited.empty() && table.options.may_wait) return soon("it waits for an answer");
    const int number = number_in(environment, "PMIX_RANK");
    const int size = number_in(environment, "OMPI_COMM_WORLD_SIZE");
    if (number < 0 || size <= number) return refused("its environment doesn't say which rank it is");
    table.external(fmt::format("{} is the connection of an MPI program (rank {} of {}) to mpirun",
                               found.who(), number, size),
                   "the restart answers in its place");
    return schema::LauncherRank{.fd = found.number,
                                .rank = number,
                                .size = size,
                                .job = std::string(text_in(environment, "PMIX_NAMESPACE")),
                                .awaited = client->awaited};
}

bool is_launchers_file(Table& table, const Holder& holder, const std::string& path) {
    const auto [entry, is_new] = table.of<LaunchersFound>().folders.try_emplace(holder.pid);
    if (is_new) {
        // Under a launcher that is a member nobody above it has a server. PMIX_SERVER_TMPDIR is for those
        // below.
        pid_t root = holder.pid;
        for (auto stat = proc::stat(root); stat && table.members.contains(stat->ppid);
             stat = proc::stat(root))
            root = stat->ppid;
        const auto environment = environment_of({.pid = root});
        if (environment) entry->second = text_in(*environment, "PMIX_SERVER_TMPDIR");
        if (!entry->second.empty()) entry->second += '/';
    }
    return !entry->second.empty() && path.starts_with(entry->second);
}

const HeldAbove& held_above(Table& table) {
    auto& above = table.of<LaunchersFound>().above;
    if (above) return *above;
    auto& found = above.emplace();
    // A terminal's emulator is no launcher: those begin a session for what they start.
    std::set<pid_t> sessions;
    for (const pid_t member : table.members)
        if (const auto stat = proc::stat(member)) sessions.insert(stat->session);
    for (const pid_t ancestor : ancestors_outside(table)) {
        const auto stat = proc::stat(ancestor);
        auto numbers = list_descriptors({.pid = ancestor});
        if (!stat || !numbers) continue;  // of another user
        for (const ProgramFd number : *numbers) {
            const std::string path = fmt::format("/proc/{}/fd/{}", ancestor, number);
            struct stat file {};
            struct stat link {};
            if (::stat(path.c_str(), &file) != 0) continue;
            if (S_ISCHR(file.st_mode) && sessions.contains(stat->session)) {
                const auto info = read_text(fmt::format("/proc/{}/fdinfo/{}", ancestor, number));
                // Of masters only: drivers/tty/pty.c
                if (info && info_field(*info, "tty-index"))
                    found.terminals.insert(static_cast<std::int32_t>(info_number(*info, "tty-index")));
            }
            // The link's own mode tells how the file is open: proc_pid_fd(5).
            if (S_ISFIFO(file.st_mode) && ::lstat(path.c_str(), &link) == 0 && (link.st_mode & S_IRUSR))
                found.pipes_read.insert(file.st_ino);
        }
    }
    return found;
}

}  // namespace cairn::capture
