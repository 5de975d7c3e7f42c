"""A curses program: windows, colours, line drawing, scrolling regions, insert and delete."""
import curses
import locale

locale.setlocale(locale.LC_ALL, "")


def main(screen):
    curses.use_default_colors()
    for i in range(1, 8):
        curses.init_pair(i, i, -1 if i % 2 else 7 - i)
    curses.mousemask(curses.ALL_MOUSE_EVENTS)
    at, log = 0, None
    while True:
        rows, cols = screen.getmaxyx()
        screen.erase()
        screen.box()
        screen.addstr(0, 2, " orchard ", curses.A_BOLD)
        for i, name in enumerate(["apple", "pear", "日本 quince", "plum"]):
            screen.addnstr(2 + i, 3, f"{'>' if i == at else ' '} {name:12}", cols - 6, curses.color_pair(i + 1) | (curses.A_REVERSE if i == at else 0))
        if log is None:
            log = curses.newwin(max(rows - 9, 2), max(cols - 8, 10), 7, 4)
            log.scrollok(True)
            log.idlok(True)
        screen.noutrefresh()
        log.redrawwin()
        log.noutrefresh()
        curses.doupdate()
        key = screen.getch()
        if key == ord("q"):
            return
        if key == curses.KEY_DOWN:
            at = (at + 1) % 4
        elif key == curses.KEY_RESIZE:
            log = None
            screen.clear()
        elif key == ord("s"):
            for i in range(12):
                log.addstr(f"line {i} of the log\n", curses.color_pair(i % 7 + 1))
                log.refresh()
        elif key == ord("b"):
            log.attron(curses.A_BOLD | curses.A_UNDERLINE)
        elif key == ord("p"):
            log.addstr("bold and underlined ")
        elif key == ord("i"):
            log.move(1, 0)
            log.insertln()
            log.insstr("inserted ")
        elif key == ord("d"):
            log.move(0, 0)
            log.deleteln()
            log.delch()
        elif key == ord("w"):
            curses.beep()
            log.bkgd(" ", curses.color_pair(4))
        elif key == ord("x"):
            curses.curs_set(0)
        elif key == ord("l"):
            log.box()
            log.hline(1, 1, curses.ACS_HLINE, 10)
        elif key == ord("h"):
            log.clear()
        elif key == ord("r"):
            curses.curs_set(1)


curses.wrapper(main)
