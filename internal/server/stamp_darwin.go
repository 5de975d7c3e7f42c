package server

import (
	"io/fs"
	"syscall"
)

func stampOfInfo(info fs.FileInfo) stamp {
	st := info.Sys().(*syscall.Stat_t)
	return stamp{inode: st.Ino, size: st.Size, changed: st.Ctimespec}
}
