#include "common/image/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/fd.h"
#include "common/image/hash.h"
#include "common/open_exactly.h"
#include "common/schema/image_name.h"
#include "common/schema/json.h"

namespace cairn {
namespace {

using nlohmann::json;

// Can't occur within a JSON string, where its quotes would be escaped.
constexpr std::string_view checksum_key = "\"checksum\": \"";
constexpr std::size_t checksum_digits = 16;
constexpr std::size_t largest = std::size_t{64}
                                << 20;  // bytes; a line of 200 bytes for each of 300,000 images

std::uint64_t text_hash(std::string_view text) {
    return hash64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

Result<std::string> read_text(const std::string& directory) {
    const std::string path = directory + "/" + manifest_file;
    auto opened =
        open_beneath(directory, manifest_file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
    if (!opened && opened.error().number == ENOENT)
        return fail_code(ExitCode::damaged, "{} is not there: the folder holds no complete checkpoint", path);
    if (!opened) return std::unexpected(std::move(opened.error()));
    const Fd& fd = *opened;
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
        return fail_code(ExitCode::damaged, "{} is no regular file", path);
    std::string text;
    char buffer[65536];
    for (;;) {
        const ssize_t count = ::read(fd.get(), buffer, sizeof buffer);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return fail_errno("reading {}", path);
        if (count == 0) return text;
        text.append(buffer, static_cast<std::size_t>(count));
        if (text.size() > largest)
            return fail_code(ExitCode::damaged, "{} is too large for a manifest", path);
    }
}

// One image of the folder. `whose`: for messages.
Result<> check_image(const std::string& directory, const std::string& file, std::uint64_t bytes,
                     const std::string& whose) {
    if (!schema::is_plain_name(file))
        return fail_code(ExitCode::damaged, "{}/{} names an image '{}' outside of its folder", directory,
                         manifest_file, file);
    const std::string path = directory + "/" + file;
    struct stat status {};
    auto there = open_beneath(directory, file, O_PATH | O_CLOEXEC | O_NOFOLLOW);
    if (!there && there.error().code == ExitCode::damaged) return std::unexpected(std::move(there.error()));
    if (!there || ::fstat(there->get(), &status) != 0) {
        const int number = there ? errno : there.error().number;
        return std::unexpected(
            Error{fmt::format("image {}{}: {}: take another generation", path, whose, std::strerror(number)),
                  number, ExitCode::damaged});
    }
    if (!S_ISREG(status.st_mode))
        return fail_code(ExitCode::damaged, "{} is not a cairn image: it is no regular file", path);
    if (static_cast<std::uint64_t>(status.st_size) != bytes)
        return fail_code(ExitCode::damaged,
                         "image {} has {} bytes, the manifest says {}: it was cut or replaced; take "
                         "another generation",
                         path, status.st_size, bytes);
    return {};
}

Result<> check_images(const std::string& directory, const schema::Manifest& manifest) {
    for (const schema::ManifestHost& host : manifest.hosts)
        if (!schema::is_plain_name(host.folder))
            return fail_code(ExitCode::damaged,
                             "{}/{} says that host {} has written '{}', which is no folder in it", directory,
                             manifest_file, host.name, host.folder);
    for (const schema::ManifestImage& image : manifest.images)
        CHECK_OK(
            check_image(directory, image.file, image.bytes,
                        image.uid.empty() ? "" : fmt::format(" of process {} ({})", image.pid, image.name)));
    for (const schema::ManifestEarlier& image : manifest.earlier)
        CHECK_OK(check_image(directory, image.file, image.bytes,
                             fmt::format(", pages of process {} from an earlier generation", image.pid)));
    return {};
}

Result<> write_text(int dirfd, const char* name, std::string_view text) {
    const Fd fd(::openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return fail_errno("creating {}", name);
    while (!text.empty()) {
        const ssize_t count = ::write(fd.get(), text.data(), text.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return fail_errno("writing {}", name);
        text.remove_prefix(static_cast<std::size_t>(count));
    }
    if (::fsync(fd.get()) != 0) return fail_errno("syncing {}", name);
    return {};
}

}  // namespace

std::string manifest_text(const schema::Manifest& manifest) {
    json value = schema::to_json(manifest);
    value["checksum"] = std::string(checksum_digits, '0');
    std::string text = schema::dump(value) + "\n";
    const std::size_t at = text.find(checksum_key) + checksum_key.size();
    text.replace(at, checksum_digits, fmt::format("{:016x}", text_hash(text)));
    return text;
}

Result<schema::Manifest> parse_manifest(std::string text, const std::string& where) {
    const auto damaged = [&](std::string_view what) {
        return fail_code(ExitCode::damaged, "{} is damaged ({}): take another generation", where, what);
    };
    const std::size_t key = text.find(checksum_key);
    if (key == std::string::npos || text.size() - key - checksum_key.size() < checksum_digits)
        return damaged("no checksum");
    const std::size_t at = key + checksum_key.size();
    const std::string stated = text.substr(at, checksum_digits);
    text.replace(at, checksum_digits, std::string(checksum_digits, '0'));
    if (stated != fmt::format("{:016x}", text_hash(text))) return damaged("checksum");
    const json value = json::parse(text, nullptr, false);
    if (value.is_discarded() || !value.is_object()) return damaged("not a JSON object");
    // First, and apart: of another version nothing else can be relied on.
    const auto version = value.find("version");
    if (version == value.end() || !version->is_number_integer()) return damaged("no version");
    if (*version != manifest_version)
        return fail_code(ExitCode::damaged,
                         "{} has version {}, this cairn reads version {}: use the cairn that wrote it", where,
                         version->dump(), manifest_version);
    auto manifest = schema::manifest_from_json(value);
    if (!manifest) return std::unexpected(std::move(manifest).error().in(where));
    return manifest;
}

Result<> write_manifest(int dirfd, const schema::Manifest& manifest) {
    const std::string unfinished = fmt::format("{}.new", manifest_file);
    CHECK_OK(write_text(dirfd, unfinished.c_str(), manifest_text(manifest)));
    if (::renameat(dirfd, unfinished.c_str(), dirfd, manifest_file) != 0)
        return fail_errno("renaming {}", unfinished);
    return {};
}

Result<schema::Manifest> read_manifest(const std::string& directory) {
    const std::string path = directory + "/" + manifest_file;
    auto text = TRY(read_text(directory));
    auto manifest = parse_manifest(std::move(text), path);
    if (!manifest) return manifest;
    CHECK_OK(check_images(directory, *manifest));
    return manifest;
}

}  // namespace cairn
