#include "restart/computation.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

#include "common/folder_trust.h"
#include "common/helper_threads.h"
#include "common/human.h"
#include "common/image/manifest.h"
#include "common/open_exactly.h"
#include "common/uid.h"
#include "resources/schema/demands.h"
#include "restart/heap.h"

namespace cairn::restart {

namespace {

// As sshd does with keys: what others can write may be anything.
Result<> check_trust(const std::string& folder) {
    const std::string who = who_else_can_write(folder, ::geteuid());
    if (who.empty()) return {};
    return fail_code(
        ExitCode::refused,
        "{}: {}, so this may not be the checkpoint that was written: put it where only you and root "
        "can write (chmod go-w what is yours), or take it as it is by --trust-folder",
        folder, who);
}

// The manifest has named it, which may be anybody's words.
Result<std::string> of_host(const std::string& directory, const std::string& name, bool trusted) {
    CHECK_OK(error_of(open_beneath(directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)));
    std::string folder = directory + "/" + name;
    CHECK_OK(trusted ? Result<>() : check_trust(folder));
    return folder;
}

constexpr std::size_t many = 16;  // images that are read by threads

// On all processors, where they are many; what can't be read is told in the order of `paths`.
std::vector<std::optional<Result<ProcessImage>>> open_process_images(const std::vector<std::string>& paths) {
    std::vector<std::optional<Result<ProcessImage>>> images(paths.size());
    std::atomic<std::size_t> next = 0;
    const bool by_threads = paths.size() >= many;
    const bool huge = huge_pages_pay(paths.size());
    const auto threads = std::clamp<std::size_t>(paths.size() / (many / 2), 1,
                                                 std::max(1U, std::thread::hardware_concurrency()));
    constexpr std::uint64_t of_each = 48 << 10;  // of a small process: sixty mappings, a thread
    if (huge) expect_much(paths.size() * of_each / threads);
    const auto read = [&] {
        if (huge) take_huge_pages();
        for (std::size_t i = next++; i < paths.size(); i = next++) {
            images[i] = open_process_image(paths[i]);
            if (*images[i]) (*images[i])->reader.park();  // there may be more processes than descriptors
        }
    };
    {
        const auto helpers = helper_threads(by_threads ? threads : 0, read, Caller::waits);
        if (helpers.empty()) read();
    }
    return images;
}

// "": none of the folders in this one has a checkpoint. For who has said where they go when he launched, and
// not now.
std::string name_folder_below(const std::string& directory) {
    std::error_code problem;
    std::vector<std::string> found;
    for (std::filesystem::directory_iterator entry(directory, problem), end; !problem && entry != end;
         entry.increment(problem))
        if (::access((entry->path() / "latest" / manifest_file).c_str(), F_OK) == 0)
            found.push_back(entry->path().string());
    if (found.empty()) return "";
    std::ranges::sort(found);
    return fmt::format(
        "; there is one in {}{}", found.front(),
        found.size() > 1
            ? fmt::format(", and in {}", human_count(found.size() - 1, "other folder", "other folders"))
            : "");
}

}  // namespace

Result<std::string> find_checkpoint(const std::string& directory, bool trusted) {
    for (const auto& candidate : {directory, directory + "/latest"})
        if (::access((candidate + "/" + manifest_file).c_str(), F_OK) == 0) {
            CHECK_OK(trusted ? Result<>() : check_trust(candidate));
            // a fixed path: `latest` may move on while we restart
            char* real = ::realpath(candidate.c_str(), nullptr);
            if (real == nullptr) return fail_errno("{}", candidate);
            std::string result = real;
            ::free(real);
            return result;
        }
    if (::access(directory.c_str(), F_OK) != 0) return fail_errno("{}", directory);
    return fail_code(ExitCode::refused, "{}: no checkpoint in here (neither {} nor latest/{}){}", directory,
                     manifest_file, manifest_file, name_folder_below(directory));
}

Result<std::string> folder_of_host(const std::string& directory, const std::string& host, bool trusted) {
    auto manifest = read_manifest(directory);
    if (!manifest) return std::unexpected(std::move(manifest.error()));
    if (manifest->hosts.empty() || !manifest->images.empty()) {
        if (host.empty() || manifest->host == host) return directory;
        return fail_code(ExitCode::usage, "{}: this is the part of host {}, not of {}", directory,
                         manifest->host, host);
    }
    std::string names, here;
    std::size_t present = 0;
    for (const auto& each : manifest->hosts) {
        const std::string folder = directory + "/" + each.folder;
        const bool there = ::access((folder + "/" + manifest_file).c_str(), F_OK) == 0;
        const char* own = std::getenv("CAIRN_HOST");
        const std::string wanted = !host.empty()                 ? host
                                   : own != nullptr && *own != 0 ? std::string(own)
                                                                 : host_name();
        if (each.name == wanted) {
            if (there) return of_host(directory, each.folder, trusted);
            return fail_code(ExitCode::refused, "{} is not here: host {} has written it; copy it to this one",
                             folder, each.name);
        }
        if (there) {
            ++present;
            here = each.folder;
        }
        names += fmt::format("{}{}{}", names.empty() ? "" : ", ", each.name, there ? "" : " (not here)");
    }
    if (host.empty() && present == 1) return of_host(directory, here, trusted);
    return fail_code(ExitCode::usage, "{}: which host's part is to be restarted here? --host takes one of {}",
                     directory, names);
}

Result<std::string> find_part(const std::string& directory, const std::string& host, bool trusted) {
    auto whole = find_checkpoint(directory, trusted);
    return whole ? folder_of_host(*whole, host, trusted) : std::move(whole);
}

namespace {

Result<Computation> read_images(const std::string& directory, const std::vector<int>& parts,
                                schema::Manifest manifest) {
    for (const int part : parts)
        if (std::ranges::find(manifest.parts, part, &schema::ManifestPart::number) == manifest.parts.end())
            return fail_code(ExitCode::usage, "{}: there is no part {}; `cairn restart --list {}` shows them",
                             directory, part, directory);
    std::vector<schema::Process> processes;
    std::vector<ImageReader> images;
    std::vector<std::size_t> living;
    std::vector<ObjectsImage> objects;
    std::vector<std::string> paths;
    for (const auto& image : manifest.images) {
        const auto path = directory + "/" + image.file;
        if (image.uid.empty()) {
            auto opened = TRY(open_objects_image(path));
            objects.push_back(std::move(opened));
        } else if (parts.empty() || std::ranges::find(parts, image.part) != parts.end()) {
            paths.push_back(path);
        }
    }
    processes.reserve(paths.size());
    images.reserve(paths.size());
    for (auto& image : open_process_images(paths)) {
        auto opened = TRY(std::move(*image));
        if (opened.process.cid != manifest.cid)
            return fail_code(ExitCode::damaged, "{}: belongs to computation {}, not to {}",
                             opened.reader.path(), opened.process.cid, manifest.cid);
        if (opened.process.run != schema::Run::zombie) living.push_back(processes.size());
        processes.push_back(std::move(opened.process));
        images.push_back(std::move(opened.reader));
    }
    if (objects.size() != 1)
        return fail_code(ExitCode::damaged, "{}: the manifest names no objects image", directory);
    std::vector<const schema::Process*> checked;
    for (const auto& process : processes) checked.push_back(&process);
    if (auto good = check_demands(checked, objects.front().objects); !good) {
        good.error().code = ExitCode::damaged;
        return std::unexpected(std::move(good.error()).in(directory));
    }
    return Computation{directory,         std::move(manifest), std::move(processes),
                       std::move(images), std::move(living),   std::move(objects.front())};
}

}  // namespace

// Of many images, threads of their own read them: what is read lies in their memory then, into which the tool
// hardly ever writes again, and which is of huge pages. A huge page that the tool or a child of its writes
// into is taken to pieces in that process, and each child would have the pieces copied (join_heap_pages()).
Result<Computation> read_computation(const std::string& directory, const std::vector<int>& parts) {
    auto manifest = TRY(read_manifest(directory));
    if (!huge_pages_pay(manifest.images.size())) return read_images(directory, parts, std::move(manifest));
    constexpr std::uint64_t of_each = 16 << 10;  // beside what the readers of its image have
    expect_much(manifest.images.size() * of_each);
    std::optional<Result<Computation>> computation;
    const auto read = [&] { computation = read_images(directory, parts, std::move(manifest)); };
    const auto read_apart = [&] {
        take_huge_pages();
        read();
    };
    if (helper_threads(1, read_apart).empty()) read();
    expect_little();
    return std::move(*computation);
}

ProgramId first_process(const std::vector<schema::Process>& processes) {
    const schema::Process* first = &processes.front();
    const auto rank = [&](const schema::Process& process) {
        const bool child =
            std::ranges::find(processes, process.ppid, &schema::Process::pid) != processes.end();
        const auto stamp = process.uid.substr(process.uid.rfind('-') + 1);
        return std::tuple(child, process.uid != process.cid, process.ppid == ProgramId(1),
                          std::strtoull(stamp.c_str(), nullptr, 10));
    };
    for (const auto& process : processes)
        if (rank(process) < rank(*first)) first = &process;
    return first->pid;
}

ObjectIndex index_objects(const schema::Objects& objects) {
    ObjectIndex index;
    for (const auto& object : objects.objects) index[object.id] = &object;
    return index;
}

}  // namespace cairn::restart
