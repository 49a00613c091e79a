#include "cli/inspect_load.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "common/image/manifest.h"

namespace cairn::inspect {
namespace {

namespace fs = std::filesystem;

bool has_manifest(const fs::path& folder) {
    std::error_code ignored;
    return fs::exists(folder / manifest_file, ignored);
}

// The generation's folder that `path` leads to.
Result<std::string> find_generation(const fs::path& path) {
    if (has_manifest(path)) return path.string();
    std::error_code problem;
    if (has_manifest(path / "latest")) {
        const fs::path real = fs::canonical(path / "latest", problem);
        return problem ? (path / "latest").string() : real.string();
    }
    std::int64_t newest = -1;
    fs::path found;
    for (const auto& entry : fs::directory_iterator(path, problem)) {
        const std::string name = entry.path().filename().string();
        std::int64_t number = -1;
        const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
        const bool whole = parsed.ec == std::errc{} && parsed.ptr == name.data() + name.size();
        if (whole && number > newest && has_manifest(entry.path())) {
            newest = number;
            found = entry.path();
        }
    }
    if (problem) return fail("reading the folder {}: {}", path.string(), problem.message());
    if (newest >= 0) return found.string();
    return fail("{} holds no complete checkpoint: there is neither {}, nor latest, nor a generation in it",
                path.string(), manifest_file);
}

void load_image(Checkpoint& checkpoint, const std::string& path, std::int32_t part, bool objects) {
    if (objects) {
        auto image = open_objects_image(path);
        if (!image) return checkpoint.problems.push_back(std::move(image).error());
        checkpoint.objects.push_back({path, part, std::move(image->reader), std::move(image->objects)});
    } else {
        auto image = open_process_image(path);
        if (!image) return checkpoint.problems.push_back(std::move(image).error());
        checkpoint.processes.push_back({path, part, std::move(image->reader), std::move(image->process)});
    }
}

Result<Checkpoint> load_folder(const std::string& path) {
    auto folder = TRY(find_generation(path));
    auto manifest = TRY(read_manifest(folder));
    Checkpoint checkpoint;
    checkpoint.folder = folder;
    for (const schema::ManifestImage& image : manifest.images)
        load_image(checkpoint, folder + "/" + image.file, image.part, image.uid.empty());
    checkpoint.manifest = std::move(manifest);
    return checkpoint;
}

// One image; what its descriptors are is in the objects image beside it, if that can be read.
Result<Checkpoint> load_single(const std::string& path) {
    auto reader = TRY(ImageReader::open(path));
    Checkpoint checkpoint;
    const fs::path folder = fs::path(path).parent_path().empty() ? "." : fs::path(path).parent_path();
    const std::string name = fs::path(path).filename().string();
    std::int32_t part = 0;
    if (has_manifest(folder))
        if (auto manifest = read_manifest(folder.string())) {
            for (const auto& image : manifest->images)
                if (image.file == name) part = image.part;
            for (const auto& image : manifest->images)
                if (image.uid.empty() && (image.part == part || image.part == 0) && image.file != name)
                    load_image(checkpoint, (folder / image.file).string(), image.part, true);
        }
    load_image(checkpoint, path, part, reader.kind() == ImageKind::objects);
    return checkpoint;
}

// By the file that has them. A child of a fork may name what its parent has there: that is checked with the
// parent's.
std::map<std::string, std::vector<schema::PageRun>> pages_of_earlier(const schema::Process& process) {
    std::map<std::string, std::vector<schema::PageRun>> all;
    for (const auto& area : process.areas)
        for (const auto& part : area.borrowed.value_or(std::vector<schema::Borrowed>())) {
            if (!part.file || part.from != process.pid) continue;
            auto& runs = all[*part.file];
            runs.insert(runs.end(), part.pages.begin(), part.pages.end());
        }
    return all;
}

}  // namespace

std::uint64_t LoadedProcess::mapped() const {
    std::uint64_t sum = 0;
    for (const auto& area : process.areas) sum += area.end - area.start;
    return sum;
}

std::uint64_t LoadedProcess::stored() const {
    std::uint64_t sum = 0;
    for (const auto& area : process.areas)
        for (const auto& run : area.pages) sum += run.length;
    return sum;
}

std::string LoadedProcess::command() const {
    std::string brackets = "[" + process.name + "]";
    if (process.run == schema::Run::zombie) return process.name + " <defunct>";
    const auto& layout = process.layout;
    if (layout.arg_end <= layout.arg_start) return brackets;
    constexpr std::uint64_t longest = 128 << 10;
    auto text = read_memory(*this, layout.arg_start, std::min(layout.arg_end - layout.arg_start, longest));
    if (!text) return brackets;
    while (!text->empty() && text->back() == '\0') text->pop_back();
    std::ranges::replace(*text, '\0', ' ');
    return text->empty() ? brackets : *text;
}

const schema::Object* Checkpoint::object(std::int32_t part, std::int64_t id) const {
    if (id < 0) return nullptr;
    for (const LoadedObjects& each : objects)
        if (each.part == part || each.part == 0)
            for (const schema::Object& object : each.objects.objects)
                if (object.id == id) return &object;
    return nullptr;
}

std::optional<std::string> read_memory(const LoadedProcess& process, ProgramAddress address,
                                       std::size_t length) {
    std::string result(length, '\0');
    std::size_t done = 0;
    PageReader pages(process.reader);
    for (const auto& area : process.process.areas)
        for (const auto& run : area.pages) {
            const ProgramAddress at = address + done;
            if (done == length || at < run.at || at >= run.at + run.length) continue;
            const std::size_t some = std::min<std::uint64_t>(length - done, run.at + run.length - at);
            const std::span to(reinterpret_cast<std::uint8_t*>(result.data()) + done, some);
            if (!pages.read(run.offset + (at - run.at), to)) return std::nullopt;
            done += some;
        }
    if (done < length) return std::nullopt;
    return result;
}

Result<Checkpoint> load(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return fail_errno("{}", path);
    if (S_ISDIR(status.st_mode)) return load_folder(path);
    // A link that the caller names is his own affair; those in a checkpoint aren't followed.
    std::error_code problem;
    const fs::path real = fs::canonical(path, problem);
    return load_single(problem ? path : real.string());
}

std::uint64_t verify(Checkpoint& checkpoint) {
    std::uint64_t bytes = 0;
    const auto check = [&](const ImageReader& reader, const auto& runs) {
        if (auto good = verify_pages(reader, runs)) {
            for (const auto& run : runs) bytes += run.length;
        } else {
            checkpoint.problems.push_back(std::move(good).error());
        }
    };
    for (const LoadedProcess& each : checkpoint.processes) {
        std::vector<schema::PageRun> runs;
        for (const auto& area : each.process.areas)
            runs.insert(runs.end(), area.pages.begin(), area.pages.end());
        check(each.reader, runs);
        for (const auto& [file, its] : pages_of_earlier(each.process)) {
            auto reader = ImageReader::open(fs::path(each.path).parent_path() / file);
            if (reader)
                check(*reader, its);
            else
                checkpoint.problems.push_back(std::move(reader).error());
        }
    }
    for (const LoadedObjects& each : checkpoint.objects) {
        std::vector<schema::ObjectRun> runs;
        for (const auto& object : each.objects.objects)
            if (const auto* memory = object.get<schema::Memory>())
                runs.insert(runs.end(), memory->pages.begin(), memory->pages.end());
        check(each.reader, runs);
    }
    return bytes;
}

}  // namespace cairn::inspect
