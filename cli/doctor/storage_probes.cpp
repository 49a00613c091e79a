// Where sessions and checkpoints lie: whether it can be written, what kind of file system it is, what is
// free.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <vector>

#include "cli/doctor/probe.h"
#include "common/fd.h"
#include "common/folder_trust.h"
#include "common/human.h"
#include "common/layout.h"
#include "common/session.h"

namespace cairn::doctor {
namespace {

struct FileSystem {
    std::uint32_t
        magic;  // f_type of statfs(2); what linux/magic.h lacks is from the file systems' own headers
    const char* name;
    bool network;
};
constexpr std::array file_systems{
    FileSystem{0x6969, "NFS", true},        FileSystem{0xff534d42, "CIFS", true},
    FileSystem{0xfe534d42, "SMB", true},    FileSystem{0x00c36400, "Ceph", true},
    FileSystem{0x0bd00bd0, "Lustre", true}, FileSystem{0x47504653, "GPFS", true},
    FileSystem{0x19830326, "BeeGFS", true}, FileSystem{0x5346414f, "AFS", true},
    FileSystem{0x01021997, "9p", true},     FileSystem{0x65735546, "FUSE", false},
    FileSystem{0x01021994, "tmpfs", false}, FileSystem{0x858458f6, "ramfs", false},
    FileSystem{0xef53, "ext4", false},      FileSystem{0x58465342, "XFS", false},
    FileSystem{0x9123683e, "btrfs", false}, FileSystem{0x2fc12fc1, "ZFS", false},
    FileSystem{0xf2f52010, "F2FS", false},  FileSystem{0x794c7630, "overlay", false}};

Observation own_session(const Setting& setting) {
    const auto session = make_session(setting.session);
    if (!session) {
        auto seen = failed("", EACCES);
        seen.said = session.error();
        return seen;
    }
    const auto path = session->directory + "/try";
    const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file) return failed(path);
    constexpr std::size_t size = 1 << 16;
    if (::posix_fallocate(file.get(), 0, size) != 0) return failed(session->directory, ENOSPC);
    if (::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0) == MAP_FAILED)
        return failed(session->directory + ": mmap");
    ::unlink(path.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const auto name = session->directory + "/try.socket";
    if (name.size() >= sizeof address.sun_path) return failed(name, ENAMETOOLONG);
    std::memcpy(&address.sun_path, name.c_str(), name.size());
    const Fd server(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)),
        client(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto* where = reinterpret_cast<const sockaddr*>(&address);
    if (::bind(server.get(), where, sizeof address) != 0) return failed("a socket in " + session->directory);
    const bool connected =
        ::listen(server.get(), 1) == 0 && ::connect(client.get(), where, sizeof address) == 0;
    const int number = errno;
    ::unlink(name.c_str());
    if (!connected) return failed("a connection to a socket in " + session->directory, number);
    return worked(run_directory() + " has files and sockets");
}

Observation write_folder(const Setting& setting) {
    if (!setting.folder_problem.empty()) {
        auto seen = failed(setting.folder, EACCES);
        seen.said = setting.folder_problem;
        return seen;
    }
    std::string place = setting.folder + "/.cairn-doctor-XXXXXX";
    if (::mkdtemp(place.data()) == nullptr) return failed(setting.folder);
    const auto began = Clock::now();
    const auto write_there = [&] {
        const std::vector<char> bytes(1 << 18, 'c');
        const Fd file(::open((place + "/image").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        if (!file) return failed(setting.folder);
        errno = 0;
        if (::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
            return failed(setting.folder, errno != 0 ? errno : ENOSPC);
        if (::fsync(file.get()) != 0) return failed(setting.folder + ": fsync");
        if (::rename((place + "/image").c_str(), (place + "/renamed").c_str()) != 0)
            return failed(setting.folder + ": rename");
        if (::symlink("renamed", (place + "/latest").c_str()) != 0)
            return failed(setting.folder + ": symbolic link");
        return worked();
    };
    auto seen = write_there();
    const auto took = Clock::now() - began;
    std::error_code ignored;
    std::filesystem::remove_all(place, ignored);
    if (seen.worked())
        seen.said = fmt::format("{} can be written to (256 KiB are durable after {})", setting.folder,
                                human_duration(std::chrono::nanoseconds(took).count()));
    return seen;
}

void refine_writing(Line& line, const Observation& seen, const Setting& setting) {
    if (seen.worked()) return;
    if (seen.error == ENOSPC) line.remedy = "make room there, or name another folder: --ckptdir";
    if (seen.error == EDQUOT)
        line.remedy = "your quota is used up: make room there, or name another folder: --ckptdir";
    if (seen.late()) line.found = setting.folder + " doesn't answer (a file server that is away?)";
}

Observation file_system(const Setting& setting) {
    struct statfs system {};
    if (::statfs(setting.folder.c_str(), &system) != 0) return failed(setting.folder);
    const auto magic = static_cast<std::uint32_t>(system.f_type);
    auto seen = worked(fmt::format("of type {:#x}", magic));
    for (const auto& each : file_systems)
        if (each.magic == magic) {
            seen.said = each.name;
            seen.facts["kind"] = each.name;
            if (each.network) seen.facts["network"] = "1";
        }
    struct statvfs flags {};
    if (::statvfs(setting.folder.c_str(), &flags) == 0 && (flags.f_flag & ST_NOEXEC) != 0)
        seen.facts["noexec"] = "1";
    return seen;
}

void refine_file_system(Line& line, const Observation& seen, const Setting&) {
    if (!seen.worked()) return;
    const auto kind = seen.fact("kind");
    if (seen.fact("network") == "1") {
        line.state = State::slower;
        line.meaning =
            "a network file system: checkpoints are durable as soon as the server says so, at the network's "
            "speed";
        line.remedy = "where it takes too long: --ckptdir on a local disk";
    } else if (kind == "tmpfs" || kind == "ramfs") {
        line.state = State::note;
        line.meaning =
            "in memory: checkpoints there are lost by a reboot, and take memory away from programs";
        line.remedy = "--ckptdir on a disk";
    }
    if (seen.fact("noexec") == "1") {
        if (line.state == State::ok) line.state = State::note;
        line.found += ", mounted noexec";
        line.meaning +=
            (line.meaning.empty() ? "" : "; ") + std::string("restart.sh can't be executed there");
        line.remedy += (line.remedy.empty() ? "" : "; ") + std::string("sh restart.sh");
    }
}

Observation free_space(const Setting& setting) {
    struct statvfs system {};
    if (::statvfs(setting.folder.c_str(), &system) != 0) return failed(setting.folder);
    const auto free = static_cast<std::uint64_t>(system.f_bavail) * system.f_frsize;
    auto seen = worked(human_bytes(free) + " free");
    seen.facts["free"] = std::to_string(free);
    return seen;
}

void refine_space(Line& line, const Observation& seen, const Setting&) {
    constexpr long little = 1L << 30;
    if (!seen.worked() || seen.number("free") >= little) return;
    line.state = State::note;
    line.meaning = "a checkpoint takes as much as the programs have in memory, and three are kept (--keep)";
    line.remedy = "make room, or name another folder: --ckptdir";
}

Observation trust(const Setting& setting) {
    const auto problem = who_else_can_write(setting.folder, ::geteuid());
    if (problem.empty()) return worked("nobody else can change what is there");
    auto seen = failed("", EPERM);
    seen.said = problem;
    return seen;
}

Observation installation(const Setting& setting) {
    auto seen = worked(setting.library);
    const auto lacks = [&](const std::string& what) {
        seen.error = ENOENT;
        seen.said = what;
    };
    if (setting.library.empty())
        lacks("libcairn.so is not there");
    else if (::access(setting.library.c_str(), R_OK) != 0)
        lacks(setting.library + ": " + std::strerror(errno));
    for (const char* name : {"cairn", "cairn-control", "cairn-coordinator", "cairn-capture", "cairn-restart"})
        if (own_program(name).empty()) lacks(fmt::format("{} is not there", name));
    return seen;
}

constexpr std::array storages{
    Probe{Group::storage, "installation", installation, State::missing, true, "nothing can be launched",
          "install all of it: cmake --install build/release --prefix DIR"},
    Probe{Group::storage, "session_folder", own_session, State::missing, true,
          "no session can be started there",
          "name a local folder of yours that can be written to by CAIRN_RUNDIR"},
    Probe{Group::storage, "checkpoint_folder", write_folder, State::missing, true,
          "no checkpoint can be written there",
          "name a folder of yours that can be written to: --ckptdir, or CAIRN_CKPTDIR", refine_writing},
    Probe{Group::storage, "trust", trust, State::note, false,
          "others could exchange a checkpoint there: a restart wants to be told --trust-folder",
          "name a folder below your home: --ckptdir"},
    Probe{Group::storage, "file_system", file_system, State::note, false, "", "", refine_file_system},
    Probe{Group::storage, "space", free_space, State::note, false, "", "", refine_space},
};

}  // namespace

std::span<const Probe> storage_probes() {
    return storages;
}

}  // namespace cairn::doctor
