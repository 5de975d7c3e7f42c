package isolation

// NoNamespaces makes NewPlan use none, as where the system allows none.
func NoNamespaces(no bool) { withoutNamespaces = no }

// NoScopes makes NewPlan use no scopes of Landlock, as before Linux 6.12.
func NoScopes(no bool) { withoutScopes = no }
