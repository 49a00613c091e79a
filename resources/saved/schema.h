// What a checkpoint has saved of files and folders (`--files=save`), so that a restart puts them back. The
// root of files.image; contents are beside it, in the folder files/ of the generation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/schema/field.h"

namespace cairn::schema {

struct SavedAttribute {
    std::string name;
    Bytes value;
};

struct SavedFile {
    std::string path;          // of the program's, absolute
    std::int64_t folder = -1;  // in SavedFiles::folders; -1: a member had it open for writing
    std::uint64_t device = 0, inode = 0, size = 0;
    std::uint32_t mode = 0, user = 0, group = 0;  // mode: with the type, S_IFREG, S_IFDIR or S_IFLNK
    std::int64_t mtime_ns = 0, ctime_ns = 0;
    // No write could have left these times as they are: the contents are still these if they are.
    bool steady = false;
    std::string stored;      // name of the contents in files/; names of one inode have the same
    std::uint64_t hash = 0;  // of the contents, as contents_hash() says
    std::string target;      // of a symbolic link
    std::vector<SavedAttribute> attributes;
};

struct SavedFiles {
    std::string cid;
    std::vector<std::string> folders;  // as named by --with
    std::vector<SavedFile> files;      // a folder stands before what is in it
};

template <Struct<SavedAttribute> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(name);
    CAIRN_FIELD(value);
}

template <Struct<SavedFile> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(path);
    CAIRN_FIELD(folder);
    CAIRN_FIELD(device);
    CAIRN_FIELD(inode);
    CAIRN_FIELD(size);
    CAIRN_FIELD(mode);
    CAIRN_FIELD(user);
    CAIRN_FIELD(group);
    CAIRN_FIELD(mtime_ns);
    CAIRN_FIELD(ctime_ns);
    CAIRN_FIELD(steady);
    CAIRN_FIELD(stored);
    CAIRN_FIELD(hash);
    CAIRN_FIELD(target);
    CAIRN_FIELD(attributes);
}

template <Struct<SavedFiles> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(cid);
    CAIRN_FIELD(folders);
    CAIRN_FIELD(files);
}

}  // namespace cairn::schema
