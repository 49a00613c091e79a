// Lists and contents of saved files.
#include "resources/saved/schema_files.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "common/image/hash.h"
#include "common/image/reader.h"
#include "common/image/writer.h"
#include "common/schema/convert.h"

namespace cairn {
namespace {

constexpr auto section_files = static_cast<SectionType>(four_letters("FILE"));
constexpr std::size_t block = std::size_t{1} << 20;

Result<> copy_range(int from, int to, off_t at, off_t end, std::vector<char>& buffer) {
    while (at < end) {
        const auto want = std::min(buffer.size(), static_cast<std::size_t>(end - at));
        const ssize_t got = ::pread(from, buffer.data(), want, at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_errno("reading");
        if (got == 0) return {};  // shorter by now: somebody outside cuts it
        for (ssize_t done = 0; done < got;) {
            const ssize_t wrote =
                ::pwrite(to, buffer.data() + done, static_cast<std::size_t>(got - done), at + done);
            if (wrote < 0 && errno == EINTR) continue;
            if (wrote < 0) return fail_errno("writing the copy");
            done += wrote;
        }
        at += got;
    }
    return {};
}

}  // namespace

bool is_of_a_restart(std::string_view name) {
    if (name.starts_with(new_mark)) return true;
    const auto at = name.rfind(after_mark);
    if (at == std::string_view::npos) return false;
    const auto number = name.substr(at + after_mark.size());
    return !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
}

Result<> write_saved_files(int directory, const schema::SavedFiles& saved) {
    auto writer = TRY(ImageWriter::create(directory, saved_list, ImageKind::objects));
    writer.add_section(section_files, schema::convert::encode(saved));
    return error_of(writer.finish(Durable::yes));
}

Result<schema::SavedFiles> read_saved_files(const std::string& directory) {
    const auto path = directory + "/" + saved_list;
    const auto reader = TRY(ImageReader::open(path));
    const auto section = TRY(reader.section(section_files));
    auto saved = schema::convert::decode<schema::SavedFiles>(section, "files");
    if (!saved) return std::unexpected(std::move(saved.error()).in(path));
    for (const auto& file : saved->files) {
        const bool fine = file.path.starts_with('/') && file.stored.find('/') == std::string::npos &&
                          !file.stored.starts_with('.') &&
                          file.folder < static_cast<std::int64_t>(saved->folders.size());
        if (!fine) return fail_code(ExitCode::damaged, "{}: a name in it is none", path);
    }
    return saved;
}

Result<> copy_contents(int from, int to, std::uint64_t size) {
    if (size == 0 || ::ioctl(to, FICLONE, from) == 0) return {};
    const auto end = static_cast<off_t>(size);
    std::vector<char> buffer(block);
    for (off_t at = 0; at < end;) {
        off_t data = ::lseek(from, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO) break;  // nothing but a hole
        off_t hole = data < 0 ? end : ::lseek(from, data, SEEK_HOLE);
        if (data < 0) data = at;
        if (hole < 0) hole = end;
        CHECK_OK(copy_range(from, to, data, std::min(hole, end), buffer));
        at = hole;
    }
    if (::ftruncate(to, end) != 0) return fail_errno("writing the copy");
    return {};
}

Result<std::uint64_t> contents_hash(int file) {
    std::vector<std::uint8_t> buffer(block);
    std::vector<std::uint64_t> hashes;
    for (off_t at = 0;;) {
        std::size_t filled = 0;
        while (filled < block) {
            const ssize_t got = ::pread(file, buffer.data() + filled, block - filled, at);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) return fail_errno("reading");
            if (got == 0) break;
            filled += static_cast<std::size_t>(got);
            at += got;
        }
        if (filled > 0) hashes.push_back(hash64({buffer.data(), filled}));
        if (filled < block) break;
    }
    return hash64(
        {reinterpret_cast<const std::uint8_t*>(hashes.data()), hashes.size() * sizeof(std::uint64_t)});
}

std::vector<schema::SavedAttribute> attributes_of(int file) {
    std::vector<schema::SavedAttribute> all;
    std::vector<char> names(65536);
    const ssize_t length = ::flistxattr(file, names.data(), names.size());
    for (ssize_t at = 0; at < length;) {
        const std::string name = names.data() + at;
        at += static_cast<ssize_t>(name.size()) + 1;
        schema::Bytes value(65536);
        const ssize_t got = ::fgetxattr(file, name.c_str(), value.data(), value.size());
        if (got < 0) continue;
        value.resize(static_cast<std::size_t>(got));
        all.push_back({name, std::move(value)});
    }
    return all;
}

}  // namespace cairn
